// Runs the graphs: computes a photo's feature map, and how well each class reconstructs it.
//
// scores.onnx scores all exported classes together. head.onnx scores the classes that the visitor made or changed, from
// their examples. The errors of both are comparable; only these few classes take longer.

import * as ort from "./runtime/ort.wasm.bundle.min.js";

const here = (name) => new URL(name, import.meta.url).href;
ort.env.wasm.wasmPaths = { wasm: here("runtime/ort-wasm-simd-threaded.wasm") };
// Threads share memory, which browsers allow only for isolated pages; sw.js isolates this page if it can run.
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

  // The exported classes: { name, exported: index, shots, centre, maps: null until they are needed, photos }, where a
  // photo is { name, src: its thumbnail or null }.
  exportedClasses() {
    let number = 0;
    return this.page.classes.map(({ name, shots, centre, photos }, index) => ({
      name, exported: index, shots, centre, maps: null,
      photos: photos.map((photo) => ({ name: photo, src: this.page.thumbnails ? `examples/${number++}.jpg` : null })),
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
    const { images } = await this.sessions.preprocess.run({ image });
    const { feature_map } = await this.sessions.features.run({ images });
    return new Float32Array(feature_map.data);
  }

  // The share of a photo that each class may explain because it has more photos than the smallest one, as in
  // frn/ridge/unequal.py.
  allowances(classes, fewest) {
    return classes.map(({ shots }) => this.page.slope * Math.log(Math.max(shots, fewest) / fewest));
  }

  // Score a feature map with all classes, best first: { name, error, explained, probability, known, errorMap }.
  async score(map, classes, fewest) {
    const found = new Array(classes.length);
    const energy = square(map) / this.r;
    const allowed = this.allowances(classes, fewest);
    const note = (place, errorMap) => {
      const error = errorMap.reduce((sum, value) => sum + value, 0) / this.r + allowed[place] * energy;
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
      // Each location is a separate query, so its class error is its value in the error map.
      const query = new ort.Tensor("float32", map, [this.r, 1, this.d]);
      const errors = await this.#head(own.map((i) => classes[i].maps), query);
      own.forEach((i, column) =>
        note(i, Float32Array.from({ length: this.r }, (_, row) => errors[row * own.length + column])));
    }
    const least = Math.min(...found.map(({ error }) => error));
    const weights = found.map(({ error }) => Math.exp(-this.page.gamma * (error - least)));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    found.forEach((entry, i) => (entry.probability = weights[i] / total));
    const known = this.#known(found, energy, this.#distances(map, classes), classes.map(({ shots }) => shots));
    found.forEach((entry) => (entry.known = known));
    return found.sort((a, b) => a.error - b.error);
  }

  // The probability that a photo belongs to one of the classes, as `KnownRule.known` of frn/inference/unknown.py; NaN if
  // it cannot be known.
  #known(found, energy, distances, shots) {
    const { weights, bias, margin } = this.page.rule;
    if (!weights.length) return NaN;
    const log = (error) => Math.log(Math.max((error + 1e-12) / (energy + 1e-12), 1e-4));
    const ranked = [...found.keys()].sort((a, b) => found[a].error - found[b].error);
    const [best, second, ...others] = ranked.slice(0, 6).map((i) => log(found[i].error));
    const rivals = [second, ...others].map(Math.exp);
    const near = distances.map((distance) => -Math.log(Math.min(Math.max(distance, 1e-6), 1e6)));
    const compared = found.length < 2 ? [0, 0, 0] : [
      Math.log(rivals.reduce((sum, share) => sum + share, 0) / rivals.length) - best,
      second - best,
      Math.log(found[ranked[0]].probability),
    ];
    const terms = [-best, ...compared, Math.max(...near), near[ranked[0]]];
    // The mean of what classes with few photos add, as in `mean_offsets`.
    const most = Math.max(...shots);
    const roots = found.map(({ probability }) => Math.sqrt(probability));
    const added = roots.reduce((sum, root, i) => sum + root * Math.log(most / shots[i]), 0) * this.page.offset;
    const start = bias + added / roots.reduce((sum, root) => sum + root, 0);
    return margin + (1 - 2 * margin) / (1 + Math.exp(-terms.reduce((sum, term, i) => sum + weights[i] * term, start)));
  }

  // Squared distances from the mean of a map's feature vectors to the classes (`Centres.distance` in frn/ridge/enrolment.py).
  #distances(map, classes) {
    const mean = this.#mean([map]);
    const centres = classes.map(({ centre, maps }) => centre ?? this.#mean(maps));
    const scale = centres.reduce((sum, centre) => sum + square(centre), 0) / centres.length || 1;
    return centres.map((centre) => square(centre.map((value, i) => value - mean[i])) / scale);
  }

  // The mean feature vector (d) over all locations of the maps.
  #mean(maps) {
    const sum = new Float64Array(this.d);
    for (const map of maps) map.forEach((value, i) => (sum[i % this.d] += value));
    return sum.map((value) => value / (maps.length * this.r));
  }

  // Class errors (q * way) of queries, with classes given by their examples' maps.
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
