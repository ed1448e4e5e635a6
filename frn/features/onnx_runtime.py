"""Check and run ONNX files with onnxruntime: quietly, and only on a device that exists.

An ONNX file from an unknown source may refer to other files, request unbounded loops or memory, or contain code. Its
graph is therefore parsed before it runs and must consist of plain tensors and known operators.

Allowed operators can still request far too much memory or time, and a runtime computes constants before any limit of
its own applies. So an untrusted file is parsed, checked and run in a child process with limited time and memory, and
one image is tried before the file counts as opened.
"""

import ctypes
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError, shorten
from frn.features.feature_cache import Maps
from frn.system.processes.forks import after_fork
from frn.system.processes.messages import Message
from frn.system.processes.sandbox import Reply, SandboxedWorker, WorkerKilledError

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Device = Literal["auto", "cpu", "cuda"]
Kind = TypeVar("Kind")
Value: TypeAlias = tuple[str, str, list[Any]]
"""Name, type and shape of an input or output; a dimension that is not fixed is not a number."""

FEATURES_FORMAT = "frn-features"  # value of the metadata entry `frn.format` of an extractor
TRACED_HEAD = "frn-traced-head"  # the same for a head other than FRN's
MAX_MODEL_BYTES = 1 << 30
MAX_METADATA = 4 << 20
MAX_ELEMENTS = 1 << 25
"""Maximum number of values that a layer may compute for one image: 128 MiB in float32.

At 84 pixels, ResNet-12 computes half a million.
"""
MAX_TOTAL = 1 << 30  # maximum number of values that all layers together may compute for one image
TIME_LIMIT = 120.0  # seconds after which a call is stopped
SECONDS = 30.0  # seconds to open an untrusted file and embed one image; as many again for each `PER_BYTES` of its size
PER_BYTES = 64 << 20
PER_FILE, PER_THREAD = 4, 16 << 20

_OPERATORS = """
Add AveragePool BatchNormalization Cast Clip Concat Constant Conv DequantizeLinear Div Erf Exp Expand Flatten
Gather Gelu Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity LayerNormalization LeakyRelu
Log MatMul Max MaxPool Min Mul Neg PRelu Pad Pow QuantizeLinear Reciprocal ReduceMean ReduceSum Relu Reshape
Resize Round Shape Sigmoid Slice Softmax Split Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where
"""
OPERATORS = frozenset(_OPERATORS.split())
"""Operators that an extractor may use: no loops, branches, random numbers or allocation of data-dependent size."""
_OF_HEADS = """
Abs And ArgMax ArgMin Atan Ceil Celu ConstantOfShape Cos Cosh CumSum Det Einsum Elu Equal EyeLike Floor GatherElements
GatherND Greater GreaterOrEqual GroupNormalization Hardmax InstanceNormalization IsInf IsNaN Less LessOrEqual LogSoftmax
LpNormalization Mean Mod NonZero Not OneHot Or Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin
ReduceProd ReduceSumSquare ScatterElements ScatterND Selu Sign Sin Sinh Softplus Softsign Sum Tan Tile TopK Trilu Xor
"""
HEAD_OPERATORS = OPERATORS | frozenset(_OF_HEADS.split())
"""Operators that a head may use: arithmetic without loops, branches, randomness or files.

Its sizes follow those of the episode; its process has limited memory. Export checks this list too.
"""


def check_model(data: bytes, where: str) -> dict[str, str]:
    """Check that an ONNX file, given by its bytes, can do nothing but compute; return its metadata.

    Raises FrnError, mentioning `where`, if it could do anything else or its `frn.format` is unknown.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if len(data) > MAX_MODEL_BYTES:
        raise FrnError(f"{where}: is {len(data) >> 20} MiB; the limit is {MAX_MODEL_BYTES >> 20} MiB")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as error:
        raise FrnError(f"{where}: is not an ONNX file") from error
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    if (kind := metadata.get("frn.format")) not in (FEATURES_FORMAT, TRACED_HEAD):
        raise FrnError(
            f"{where}: is an ONNX file, but not one that frn wrote (frn.format is {kind!r}, expected "
            f"{FEATURES_FORMAT} or {TRACED_HEAD})"
        )
    if sum(map(len, metadata.values())) > MAX_METADATA:
        raise FrnError(f"{where}: has over {MAX_METADATA >> 20} MiB of metadata")
    foreign = [opset.domain for opset in model.opset_import if opset.domain not in ("", "ai.onnx")]
    if foreign or model.functions or model.training_info:
        used = shorten(foreign[0]) if foreign else "its own functions"
        raise FrnError(f"{where}: uses {used}; only standard operators are allowed")
    _check_graph(model.graph, where, HEAD_OPERATORS if kind == TRACED_HEAD else OPERATORS)
    _check_sizes(model, where)
    return metadata


def _check_graph(graph: "onnx.GraphProto", where: str, operators: frozenset[str]) -> None:
    import onnx

    if graph.sparse_initializer:
        raise FrnError(f"{where}: contains sparse tensors, which frn does not use")
    tensors = list(graph.initializer)
    for node in graph.node:
        if node.op_type not in operators or node.domain not in ("", "ai.onnx"):
            operator = shorten(f"{node.domain or 'ai.onnx'}.{node.op_type}")
            raise FrnError(f"{where}: uses the operator {operator}, which is not allowed")
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                raise FrnError(f"{where}: has a subgraph in {node.op_type}, which is not allowed")
            tensors += [attribute.t, *attribute.tensors]
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data for tensor in tensors):
        raise FrnError(f"{where}: stores tensors in other files, which frn never reads")


def _check_sizes(model: "onnx.ModelProto", where: str) -> None:
    """Raise FrnError if any value of a graph, for one image, is far larger than in any real network."""
    import onnx

    for value in model.graph.input:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_value = 1
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")  # the file may fix the number of images
    try:
        # without data propagation, which could compute values of any size
        inferred = onnx.shape_inference.infer_shapes(model)
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as error:
        raise FrnError(f"{where}: the shapes in its graph contradict each other ({shorten(error)})") from error
    total = 0
    for value in inferred.graph.value_info:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if any(dim < 0 for dim in dims):
            raise FrnError(f"{where}: computes {value.name!r} with a negative size")
        total += math.prod(dims)  # 0 if a dimension is unknown
        if math.prod(dims) > MAX_ELEMENTS or total > MAX_TOTAL:
            raise FrnError(
                f"{where}: computes {math.prod(dims):,} numbers at {value.name!r} for one image; the limits are "
                f"{MAX_ELEMENTS:,} at once and {MAX_TOTAL:,} in all"
            )


def open_session(
    data: bytes, where: str, *, device: Device = "auto", threads: int = 0, fold: bool = True
) -> "onnxruntime.InferenceSession":
    """Create a session from the bytes of a checked or shipped model, silent on stdout and stderr.

    Without `fold`, constants are computed by runs, which have a time limit, and not while the session is created.
    Raises FrnError if the model cannot run, or if `device` is "cuda" and CUDA is not available.
    """
    import onnxruntime

    if device == "cuda" and not cuda_answers():
        raise FrnError("--device cuda: no CUDA device is available. Use --device cpu or auto.")
    wants_cuda = device != "cpu" and cuda_answers()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    gpu = {"device_id": os.environ.get("LOCAL_RANK", "0")}  # one GPU per torchrun process
    providers = [("CUDAExecutionProvider", gpu)] * wants_cuda + [("CPUExecutionProvider", {})]
    onnxruntime.set_default_logger_severity(4)  # otherwise a fallback prints pages of warnings
    try:
        unwanted = None if fold else ["ConstantFolding"]
        session = onnxruntime.InferenceSession(data, options, providers=providers, disabled_optimizers=unwanted)
    except Exception as e:  # the exceptions of onnxruntime have no common base class
        raise FrnError(f"{where}: onnxruntime cannot run it ({shorten(e)})") from e
    finally:
        onnxruntime.set_default_logger_severity(2)
    if device == "cuda" and "CUDAExecutionProvider" not in session.get_providers():
        raise FrnError("--device cuda: onnxruntime's CUDA provider did not start (cuDNN or CUDA libraries missing?)")
    return session


def cuda_answers() -> bool:
    """Return whether onnxruntime has a CUDA provider and the driver a device; fast, without output."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    import onnxruntime  # only now, because the import takes time

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def run_session(
    session: "onnxruntime.InferenceSession", outputs: Sequence[str], inputs: Mapping[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    """Run a session. Raises FrnError if the run fails or takes longer than `TIME_LIMIT` seconds."""
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    timer = threading.Timer(TIME_LIMIT, setattr, (options, "terminate", True))
    timer.start()
    try:
        results: list[NDArray[Any]] = session.run(list(outputs), dict(inputs), options)
    except Exception as error:
        if options.terminate:
            raise FrnError(f"the model was stopped: it took more than {TIME_LIMIT:.0f} s") from error
        raise FrnError(f"the model failed ({shorten(error)})") from error
    finally:
        timer.cancel()
    return results


def parse_json(metadata: Mapping[str, str], key: str, where: str, kind: type[Kind]) -> Kind:
    """Return a metadata entry that contains JSON. Raises FrnError if it is missing, damaged, or of the wrong type."""
    try:
        return msgspec.json.decode(metadata.get(key, ""), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FrnError(f"{where}: its metadata lacks a readable {key} ({shorten(error)})") from error


class OwnModel:
    """A model file made by `frn`; it is not checked."""

    def __init__(self, data: bytes, where: str, device: Device, threads: int, *, apart: bool = False) -> None:
        """Open the bytes of a model. With `apart`, each thread runs its part of a batch of images.

        Otherwise all threads share each layer, and wait for each other in loops that take the processor from threads
        that decode: together these then need 1.4 times as much time. A single image is faster with shared layers.
        """
        self._open = partial(open_session, data, where, device=device, threads=1 if apart else threads)
        self._session: Any = self._open()
        self.metadata, self.inputs, self.outputs = _describe(self._session)
        self.parts = threads if apart and self._session.get_providers() == ["CPUExecutionProvider"] else 1
        """Number of parts of a batch that run at a time."""
        after_fork(self, OwnModel.forget)

    def run(self, inputs: Mapping[str, Maps]) -> Maps:
        """Return the first output for inputs by name. Raises FrnError if the run fails or takes too long."""
        if self._session is None:
            self._session = self._open()
        session, outputs = self._session, [self.outputs[0][0]]
        if self.parts == 1:
            return run_session(session, outputs, inputs)[0]
        ((name, images),) = inputs.items()
        parts = np.array_split(images, min(self.parts, len(images)) or 1)
        with ThreadPoolExecutor(len(parts)) as pool:
            return np.concatenate(list(pool.map(lambda part: run_session(session, outputs, {name: part})[0], parts)))

    def forget(self) -> None:
        """Replace the session after a fork.

        A session without its threads can neither run nor be deleted, so it is kept and another is created.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
        self._session = None


class ForeignModel:
    """A model file from an unknown source."""

    parts = 1  # all threads share each layer

    def __init__(self, data: bytes, where: str, device: Device, threads: int) -> None:
        self._data, self._where = data, where
        self._how: Message = {"do": "open", "where": where, "device": device, "threads": threads}
        # Bytes that a child may use, in addition to `PER_FILE` times the file's size and a stack for each thread
        memory = (1280 << 20) + PER_FILE * len(data) + PER_THREAD * threads
        if device != "cpu" and cuda_answers():
            memory = 8 << 30  # bytes that a child may use with CUDA, which maps its own memory
        self._child = SandboxedWorker("frn.features.onnx_runtime:answer", memory)
        self._open()

    def _open(self) -> None:
        answer, _ = self._ask(self._how, [self._data], SECONDS * (1 + len(self._data) / PER_BYTES))
        self.metadata: dict[str, str] = answer["metadata"]
        self.inputs: list[Value] = [tuple(value) for value in answer["inputs"]]
        self.outputs: list[Value] = [tuple(value) for value in answer["outputs"]]
        self._seconds = float(answer["seconds"])  # seconds that one image took

    def run(self, inputs: Mapping[str, Maps]) -> Maps:
        """Run as `OwnModel.run` does; a child that was stopped or belongs to another process is replaced."""
        if not self._child.lives:
            self._open()
        images = inputs.get("images")
        # Time limit of a run, relative to the time expected from the one image embedded on opening
        expected = TIME_LIMIT if images is None else max(SECONDS, 5.0 * self._seconds * len(images))
        shapes = {name: array.shape for name, array in inputs.items()}
        blobs = [np.ascontiguousarray(array).tobytes() for array in inputs.values()]
        answer, (maps,) = self._ask({"do": "run", "shapes": shapes}, blobs, expected)
        return np.frombuffer(maps, dtype=np.float32).reshape(answer["shape"])

    def _ask(self, question: Message, blobs: list[bytes], seconds: float) -> tuple[Message, list[bytes]]:
        try:
            return self._child.ask(question, blobs, seconds)
        except WorkerKilledError as stopped:
            raise FrnError(f"{self._where}: the model was stopped: it {stopped}") from stopped


Session = OwnModel | ForeignModel


def _describe(session: Any) -> tuple[dict[str, str], list[Value], list[Value]]:
    def values(listed: Any) -> list[Value]:
        return [(value.name, value.type, list(value.shape)) for value in listed]

    metadata = dict(session.get_modelmeta().custom_metadata_map)
    return metadata, values(session.get_inputs()), values(session.get_outputs())


_open: dict[str, Any] = {}  # the session of this process, if the process is a child


def answer(question: Message, blobs: list[bytes]) -> Reply:
    """Answer a request in the child process."""
    if question["do"] == "run":
        named = zip(question["shapes"].items(), blobs, strict=True)
        arrays = {name: np.frombuffer(blob, dtype=np.float32).reshape(shape) for (name, shape), blob in named}
        session = _open["session"]
        (maps,) = run_session(session, [session.get_outputs()[0].name], arrays)
        maps = np.ascontiguousarray(maps, dtype=np.float32)
        return {"shape": maps.shape}, (maps.tobytes(),)
    where, data = question["where"], blobs.pop()
    check_model(data, where)
    _open["session"] = session = open_session(
        data, where, device=question["device"], threads=question["threads"], fold=False
    )
    metadata, inputs, outputs = _describe(session)
    began = time.monotonic()
    if all(kind == "tensor(float)" for _, kind, _ in inputs):
        # Size of a free dimension (images, classes, shots) in the first run
        sizes = {name: [side if isinstance(side, int) else 2 for side in shape] for name, _, shape in inputs}
        run_session(
            session, [outputs[0][0]], {name: np.zeros(shape, dtype=np.float32) for name, shape in sizes.items()}
        )
    seconds = time.monotonic() - began
    return {"metadata": metadata, "inputs": inputs, "outputs": outputs, "seconds": seconds}, ()
