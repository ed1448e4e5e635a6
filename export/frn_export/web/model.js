// The graphs and what they compute: a photo's feature map, and how well each class rebuilds it.
//
// Classes as they were exported are scored together by scores.onnx; classes that the visitor made or changed, by
// head.onnx from their examples. The errors of both are comparable: only these few classes cost more.

import * as ort from "./runtime/ort.wasm.bundle.min.js";

const here = (name) => new URL(name, import.meta.url).href;
ort.env.wasm.wasmPaths = { wasm: here("runtime/ort-wasm-simd-threaded.wasm") };
// Threads share memory, which browsers grant to isolated pages alone; sw.js isolates this one where it may run.
ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency || 1) : 1;
ort.env.logLevel = "error";

export const threads = ort.env.wasm.numThreads;

const square = (values) => values.reduce((sum, value) => sum + value * value, 0);

export class Model {
  static async open() {
    const page = await (await fetch(here("page.json"))).json();
    const names = ["preprocess", "features", "head", ...(page.classes.length ? ["scores"] : [])];
    const opened = await Promise.all(
      names.map((name) => ort.InferenceSession.create(here(`${name}.onnx`), { executionProviders: ["wasm"] })),
    );
    const sessions = Object.fromEntries(names.map((name, i) => [name, opened[i]]));
    return new Model(page, sessions);
  }

  constructor(page, sessions) {
    Object.assign(this, { page, sessions });
    this.r = page.grid[0] * page.grid[1];
    this.d = page.channels;
  }

  // The classes as exported: { name, exported: index, shots, maps: null until they are needed, leaveOneOut }.
  exportedClasses() {
    return this.page.classes.map(({ name, shots, leave_one_out }, index) => ({
      name, exported: index, shots, maps: null, leaveOneOut: leave_one_out,
    }));
  }

  // The feature maps of an exported class's examples.
  async exportedMaps(index) {
    this.supports ??= new Float32Array(await (await fetch(here("supports.bin"))).arrayBuffer());
    const size = this.r * this.d;
    const before = this.page.classes.slice(0, index).reduce((sum, entry) => sum + entry.shots, 0);
    return Array.from({ length: this.page.classes[index].shots }, (_, i) =>
      this.supports.slice((before + i) * size, (before + i + 1) * size));
  }

  // The feature map (r * d) of pixels { data: RGB bytes, width, height }.
  async embed({ data, width, height }) {
    const image = new ort.Tensor("uint8", data, [height, width, 3]);
    const { images } = await this.sessions.prepare.run({ image });
    const { feature_map } = await this.sessions.features.run({ images });
    return new Float32Array(feature_map.data);
  }

  // What the classes say of a feature map, the best first: { name, error, explained, probability, errorMap }.
  async score(map, classes) {
    const found = new Array(classes.length);
    const energy = square(map) / this.r;
    const note = (place, errorMap) => {
      const error = errorMap.reduce((sum, value) => sum + value, 0) / this.r;
      found[place] = { name: classes[place].name, error, errorMap, explained: energy ? Math.max(0, 1 - error / energy) : 0 };
    };
    const own = [...classes.keys()].filter((i) => classes[i].exported === null);
    if (own.length < classes.length) {
      const feature_map = new ort.Tensor("float32", map, [1, this.r, this.d]);
      const { error_map } = await this.sessions.scores.run({ feature_map });
      classes.forEach(({ exported }, i) => {
        if (exported !== null) note(i, error_map.data.slice(exported * this.r, (exported + 1) * this.r));
      });
    }
    if (own.length) {
      // Every location as a query of its own: its class error is its part of the error map.
      const query = new ort.Tensor("float32", map, [this.r, 1, this.d]);
      const errors = await this.#head(own.map((i) => classes[i].maps), query);
      own.forEach((i, column) =>
        note(i, Float32Array.from({ length: this.r }, (_, row) => errors[row * own.length + column])));
    }
    const least = Math.min(...found.map(({ error }) => error));
    const gamma = this.temperature(classes.map(({ shots }) => shots));
    const weights = found.map(({ error }) => Math.exp(-gamma * (error - least)));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    found.forEach((entry, i) => (entry.probability = weights[i] / total));
    return found.sort((a, b) => a.error - b.error);
  }

  // Gamma for classes of so many examples, as `temperature` of frn/ridge/parameters.py.
  temperature(shots) {
    const { gamma, usual_shots } = this.page;
    if (usual_shots === null) return gamma;
    const sorted = [...shots].sort((a, b) => a - b);
    const median = (sorted[(shots.length - 1) >> 1] + sorted[shots.length >> 1]) / 2;
    return gamma * Math.min(1, median / usual_shots) ** (1 / 3);
  }

  // What the other examples of a class explain of each; nothing where there is one.
  async leaveOneOut(maps) {
    const k = maps.length;
    if (k < 2) return [];
    const rests = maps.map((_, left) => maps.filter((_, i) => i !== left));
    const query = new ort.Tensor("float32", concatenate(maps), [k, this.r, this.d]);
    const errors = await this.#head(rests, query);
    return maps.map((map, i) => {
      const energy = square(map) / this.r;
      return energy ? Math.max(0, 1 - errors[i * k + i] / energy) : 0;
    });
  }

  // The share that a class must explain of a photo which is to be known.
  threshold(classes) {
    if (this.page.threshold !== null) return this.page.threshold;
    const shares = classes.flatMap(({ leaveOneOut }) => leaveOneOut).sort((a, b) => a - b);
    if (!shares.length) return 0;
    const place = this.page.false_rejection_rate * (shares.length - 1);
    const low = Math.floor(place);
    const high = Math.min(low + 1, shares.length - 1);
    return shares[low] + (place - low) * (shares[high] - shares[low]);
  }

  // Class errors (q * way) of queries by classes that are given by their examples' maps.
  async #head(pools, query) {
    const size = this.r * this.d;
    const most = Math.max(...pools.map((pool) => pool.length));
    const data = new Float32Array(pools.length * most * size);
    pools.forEach((pool, i) => pool.forEach((map, j) => data.set(map, (i * most + j) * size)));
    const support = new ort.Tensor("float32", data, [pools.length, most, this.r, this.d]);
    const counts = BigInt64Array.from(pools, (pool) => BigInt(pool.length));
    const shots = new ort.Tensor("int64", counts, [pools.length]);
    return (await this.sessions.head.run({ support, shots, query })).class_error.data;
  }
}

function concatenate(maps) {
  const all = new Float32Array(maps.length * maps[0].length);
  maps.forEach((map, i) => all.set(map, i * map.length));
  return all;
}
