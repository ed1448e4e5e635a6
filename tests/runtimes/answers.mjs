// `node answers.mjs FOLDER`: the same as answers.py, by onnxruntime-node, which is looked for in the working directory.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "answers.mjs"));
const ort = require("onnxruntime-node");
const folder = process.argv[2];
const open = (name) => ort.InferenceSession.create(join(folder, `${name}.onnx`));
const floats = (name) => {
  const bytes = readFileSync(join(folder, name));
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};
const rows = (tensor, count) => {
  const width = tensor.data.length / count;
  return Array.from({ length: count }, (_, row) => Array.from(tensor.data.slice(row * width, (row + 1) * width)));
};

const photos = JSON.parse(readFileSync(join(folder, "photos.json"), "utf8"));
const [classifier, batch, features, head] = await Promise.all(
  ["classifier", "classifier-batch", "features", "head"].map(open));
const found = [];
for (const { name, height, width } of photos.files) {
  const image = new ort.Tensor("uint8", new Uint8Array(readFileSync(join(folder, name))), [height, width, 3]);
  const { label, probability } = await classifier.run({ image });
  found.push([label.data[0], Array.from(probability.data)]);
}
const images = new ort.Tensor("float32", floats("images.bin"), photos.images);
const { label, probability } = await batch.run({ images });
const { feature_map: maps } = await features.run({ images });
const [, r, d] = maps.dims;
const pair = maps.data.slice(0, 2 * r * d);
const { logits } = await head.run({
  support: new ort.Tensor("float32", pair, [2, 1, r, d]),
  shots: new ort.Tensor("int64", BigInt64Array.of(1n, 1n), [2]),
  query: new ort.Tensor("float32", pair, [2, r, d]),
});
const count = photos.images[0];
console.log(JSON.stringify({
  version: require("onnxruntime-node/package.json").version,
  photos: found,
  batch: rows(probability, count).map((row, index) => [label.data[index], row]),
  nearest: rows(logits, 2).map((row) => row.indexOf(Math.max(...row))),
}));
