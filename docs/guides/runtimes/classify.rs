// classify EXPORTED CLASSES PHOTO...: enrols the class folders and prints a line for each photo.
//   rustc -O classify.rs -L $ORT/lib -C link-arg=-Wl,-rpath,$ORT/lib
// No crate: onnxruntime's C interface is a table of functions whose places never change (onnxruntime_c_api.h). With
// crates.io at hand the crate `ort` has the same by name. Photos are binary PPM (`P6`), as any image crate could give.
use std::ffi::{c_char, c_void, CStr, CString};
use std::path::{Path, PathBuf};
use std::{env, fs, ptr};

type Any = *mut c_void;
const ERROR_MESSAGE: usize = 2;
const CREATE_ENV: usize = 3;
const CREATE_SESSION: usize = 7;
const RUN: usize = 9;
const CREATE_SESSION_OPTIONS: usize = 10;
const CREATE_TENSOR: usize = 49;
const TENSOR_DATA: usize = 51;
const DIMENSIONS_COUNT: usize = 61;
const DIMENSIONS: usize = 62;
const TENSOR_SHAPE: usize = 65;
const CPU_MEMORY: usize = 69;
const FLOAT: i32 = 1;
const UINT8: i32 = 2;
const INT64: i32 = 7;

#[repr(C)]
struct ApiBase {
    get_api: extern "C" fn(u32) -> *const *const c_void,
}

#[link(name = "onnxruntime")]
extern "C" {
    fn OrtGetApiBase() -> *const ApiBase;
}

struct Runtime {
    api: *const *const c_void,
    env: Any,
    memory: Any,
}

// Calls the function at a place of the table, which returns null or an error.
macro_rules! call {
    ($rt:expr, $place:expr, $($type:ty: $value:expr),+) => {{
        let function: extern "C" fn($($type),+) -> Any = unsafe { std::mem::transmute(*$rt.api.add($place)) };
        let status = function($($value),+);
        if !status.is_null() {
            let told: extern "C" fn(Any) -> *const c_char = unsafe { std::mem::transmute(*$rt.api.add(ERROR_MESSAGE)) };
            panic!("{}", unsafe { CStr::from_ptr(told(status)) }.to_string_lossy());
        }
    }};
}

impl Runtime {
    fn open() -> Self {
        let api = unsafe { ((*OrtGetApiBase()).get_api)(17) };
        let mut rt = Runtime { api, env: ptr::null_mut(), memory: ptr::null_mut() };
        call!(rt, CREATE_ENV, i32: 2, *const c_char: c"frn".as_ptr(), *mut Any: &mut rt.env);
        call!(rt, CPU_MEMORY, i32: 1, i32: 0, *mut Any: &mut rt.memory);
        rt
    }

    fn session(&self, path: PathBuf) -> Any {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        let (mut options, mut session) = (ptr::null_mut(), ptr::null_mut());
        call!(self, CREATE_SESSION_OPTIONS, *mut Any: &mut options);
        call!(self, CREATE_SESSION, Any: self.env, *const c_char: path.as_ptr(), Any: options, *mut Any: &mut session);
        session
    }

    // A tensor over numbers that must outlive it.
    fn tensor<T>(&self, data: &[T], shape: &[i64], kind: i32) -> Any {
        let mut value = ptr::null_mut();
        call!(self, CREATE_TENSOR, Any: self.memory, *const T: data.as_ptr(), usize: std::mem::size_of_val(data),
              *const i64: shape.as_ptr(), usize: shape.len(), i32: kind, *mut Any: &mut value);
        value
    }

    fn run(&self, session: Any, inputs: &[&CStr], values: &[Any], output: &CStr) -> Any {
        let names: Vec<_> = inputs.iter().map(|name| name.as_ptr()).collect();
        let (wanted, mut found) = ([output.as_ptr()], ptr::null_mut());
        call!(self, RUN, Any: session, Any: ptr::null_mut(), *const *const c_char: names.as_ptr(),
              *const Any: values.as_ptr(), usize: values.len(), *const *const c_char: wanted.as_ptr(), usize: 1,
              *mut Any: &mut found);
        found
    }

    fn floats(&self, value: Any) -> (Vec<f32>, Vec<i64>) {
        let (mut info, mut count, mut data) = (ptr::null_mut(), 0usize, ptr::null_mut());
        call!(self, TENSOR_SHAPE, Any: value, *mut Any: &mut info);
        call!(self, DIMENSIONS_COUNT, Any: info, *mut usize: &mut count);
        let mut shape = vec![0i64; count];
        call!(self, DIMENSIONS, Any: info, *mut i64: shape.as_mut_ptr(), usize: count);
        call!(self, TENSOR_DATA, Any: value, *mut Any: &mut data);
        let size = shape.iter().product::<i64>() as usize;
        (unsafe { std::slice::from_raw_parts(data as *const f32, size) }.to_vec(), shape)
    }
}

// Width, height and bytes of a binary PPM.
fn pixels(path: &Path) -> (i64, i64, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i].is_ascii_whitespace()).take(4).collect();
    let head = std::str::from_utf8(&bytes[..ends[3]]).unwrap();
    let words: Vec<&str> = head.split_ascii_whitespace().collect();
    assert!(words[0] == "P6" && words[3] == "255", "{}: is no binary PPM", path.display());
    (words[1].parse().unwrap(), words[2].parse().unwrap(), bytes[ends[3] + 1..].to_vec())
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

// Classes of fewer than five examples get milder probabilities, as from `frn classify`.
fn mildness(shots: &[i64]) -> f64 {
    let mut counts = shots.to_vec();
    counts.sort();
    let median = (counts[(counts.len() - 1) / 2] + counts[counts.len() / 2]) as f64 / 2.0;
    (median / 5.0).min(1.0).cbrt()
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let (rt, exported) = (Runtime::open(), Path::new(&words[1]));
    let [prepare, features, head] = ["preprocess", "features", "head"].map(|n| rt.session(exported.join(format!("{n}.onnx"))));
    let embed = |path: &Path| {
        let (width, height, bytes) = pixels(path);
        let images = rt.run(prepare, &[c"image"], &[rt.tensor(&bytes, &[height, width, 3], UINT8)], c"images");
        rt.floats(rt.run(features, &[c"images"], &[images], c"feature_map"))
    };

    // A class is the feature maps of its examples: nothing else is kept, nothing is trained.
    let folders = sorted(Path::new(&words[2]));
    let maps: Vec<Vec<_>> = folders.iter().map(|folder| sorted(folder).iter().map(|path| embed(path)).collect()).collect();
    let shots: Vec<i64> = maps.iter().map(|found| found.len() as i64).collect();
    let (way, most, shape) = (maps.len(), *shots.iter().max().unwrap() as usize, maps[0][0].1.clone());
    let size = (shape[1] * shape[2]) as usize;
    let mut support = vec![0f32; way * most * size]; // zeros where a class has fewer
    for (i, found) in maps.iter().enumerate() {
        for (k, (map, _)) in found.iter().enumerate() {
            support[(i * most + k) * size..][..size].copy_from_slice(map);
        }
    }
    for photo in &words[3..] {
        let (query, _) = embed(Path::new(photo));
        let given = [
            rt.tensor(&support, &[way as i64, most as i64, shape[1], shape[2]], FLOAT),
            rt.tensor(&shots, &[way as i64], INT64),
            rt.tensor(&query, &shape, FLOAT),
        ];
        let (logits, _) = rt.floats(rt.run(head, &[c"support", c"shots", c"query"], &given, c"logits"));
        let best = (0..way).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        let total: f64 = logits.iter().map(|&l| (mildness(&shots) * f64::from(l - logits[best])).exp()).sum();
        println!("{photo}\t{}\t{}", folders[best].file_name().unwrap().to_string_lossy(), 1.0 / total);
    }
}
