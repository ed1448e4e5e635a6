// node classify.mjs EXPORTED CLASSES PHOTO...: enrols the class folders and prints a line of JSON for each photo.
//   npm install onnxruntime-node sharp
import { readdirSync } from "node:fs";
import { join } from "node:path";
import ort from "onnxruntime-node";
import sharp from "sharp";

const [exported, classes, ...photos] = process.argv.slice(2);
const open = (name) => ort.InferenceSession.create(join(exported, `${name}.onnx`));
const [prepare, features, head] = await Promise.all(["preprocess", "features", "head"].map(open));

// The feature map (1, r, d) of a photo.
async function embed(path) {
  const turned = sharp(path).rotate().toColourspace("srgb").removeAlpha(); // upright, as its EXIF tag says
  const { data, info } = await turned.raw().toBuffer({ resolveWithObject: true });
  const image = new ort.Tensor("uint8", data, [info.height, info.width, 3]);
  const { images } = await prepare.run({ image });
  return (await features.run({ images })).feature_map;
}

// A class is the feature maps of its examples: nothing else is kept, nothing is trained.
const names = readdirSync(classes).sort();
const maps = [];
for (const name of names) {
  const paths = readdirSync(join(classes, name)).sort().map((file) => join(classes, name, file));
  maps.push(await Promise.all(paths.map(embed)));
}
const [, r, d] = maps[0][0].dims;
const most = Math.max(...maps.map((found) => found.length));
const support = new Float32Array(names.length * most * r * d); // zeros where a class has fewer
maps.forEach((found, i) => found.forEach((map, k) => support.set(map.data, (i * most + k) * r * d)));
const shots = BigInt64Array.from(maps, (found) => BigInt(found.length));

// Classes of fewer than five examples get milder probabilities, as from `frn classify`.
const counts = maps.map((found) => found.length).sort((a, b) => a - b);
const median = (counts[(counts.length - 1) >> 1] + counts[counts.length >> 1]) / 2;
const mildness = Math.cbrt(Math.min(1, median / 5));

for (const photo of photos) {
  const { logits } = await head.run({
    support: new ort.Tensor("float32", support, [names.length, most, r, d]),
    shots: new ort.Tensor("int64", shots, [names.length]),
    query: await embed(photo),
  });
  const best = logits.data.indexOf(Math.max(...logits.data));
  const total = logits.data.reduce((sum, logit) => sum + Math.exp(mildness * (logit - logits.data[best])), 0);
  console.log(JSON.stringify({ photo, label: names[best], probability: 1 / total }));
}
