// Runs the graphs: computes a photo's feature map, and how well each class reconstructs it.
//
// scores.onnx scores all exported classes together. head.onnx scores the classes that the visitor made or changed, from
// their examples. The errors of both are comparable; only these few classes take longer. features.onnx takes an image of
// any size if the page searches photos for their subject.

import { cut, shrunk } from "./photo.js";
import * as ort from "./runtime/ort.wasm.bundle.min.js";

const here = (name) => new URL(name, import.meta.url).href;
ort.env.wasm.wasmPaths = { wasm: here("runtime/ort-wasm-simd-threaded.wasm") };
// Threads share memory, which browsers allow only for isolated pages; sw.js isolates this page if it can run.
ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency || 1) : 1;
ort.env.logLevel = "error";

export const threads = ort.env.wasm.numThreads;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const square = (values) => values.reduce((total, value) => total + value * value, 0);
const round = (value) => (value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value)); // as Python does

// An error with what additional photos of its class are allowed, as `allowed` of frn/ridge/enrolment.py.
export const withAllowance = (error, energy, share, usual) => error + share * Math.max(0, error - usual * energy);

// The mean error of the other classes minus that of the best or the given one. A single class is compared with nothing.
function margin(errors, energy, own) {
  const least = own === undefined ? Math.min(...errors) : errors[own];
  return (errors.length > 1 ? (sum(errors) - least) / (errors.length - 1) : energy) - least;
}

// The windows of each size [rows, columns] in a map, best first: { part, margin }. A part is the left and top edge, the
// width and the height, as fractions of the map's. `learned` is what the boxes of examples taught about each cell.
export function rankedWindows({ cells, shares, usual }, lengths, learned, columns, sizes, own) {
  const rows = lengths.length / columns;
  // Integral images give the sum of each window, as in `window_means`.
  const integral = (values) => {
    const sums = new Float64Array((rows + 1) * (columns + 1));
    for (let y = 0; y < rows; y++) {
      for (let x = 0, row = 0; x < columns; x++) {
        row += values[y * columns + x];
        sums[(y + 1) * (columns + 1) + x + 1] = sums[y * (columns + 1) + x + 1] + row;
      }
    }
    return (x, y, w, h) => {
      const [top, bottom] = [y * (columns + 1), (y + h) * (columns + 1)];
      return (sums[bottom + x + w] - sums[top + x + w] - sums[bottom + x] + sums[top + x]) / (w * h);
    };
  };
  const energies = integral(lengths), more = integral(learned), means = cells.map(integral);
  return sizes.map(([height, width]) => {
    const windows = [];
    for (let y = 0; y + height <= rows; y++) {
      for (let x = 0; x + width <= columns; x++) {
        const energy = energies(x, y, width, height);
        const errors = means.map((mean, i) => withAllowance(mean(x, y, width, height), energy, shares[i], usual));
        const part = [x / columns, y / rows, width / columns, height / rows];
        windows.push({ part, margin: margin(errors, energy, own) + more(x, y, width, height) });
      }
    }
    return windows.sort((a, b) => b.margin - a.margin);
  });
}

// The box of a part in pixels of a photo of this size, as `pixel_box` of frn/inference/find/windows.py.
const boxOf = ([left, top, width, height], size) => [
  Math.floor(left * size.width), Math.floor(top * size.height),
  Math.max(1, round(width * size.width)), Math.max(1, round(height * size.height)),
];

// Up to `most` of these { box }, without those that share much with an earlier one, as `distinct` there.
function distinct(found, { most, shared }) {
  const across = (one, other, i) => Math.max(0, Math.min(one[i] + one[i + 2], other[i] + other[i + 2]) - Math.max(one[i], other[i]));
  const share = (one, other) => (across(one, other, 0) * across(one, other, 1)) / Math.min(one[2] * one[3], other[2] * other[3]);
  return found.reduce((kept, each) => {
    const isNew = kept.length < most && kept.every(({ box }) => share(each.box, box) < shared);
    return isNew ? [...kept, each] : kept;
  }, []);
}

export class Model {
  static async open() {
    const page = await (await fetch(here("page.json"))).json();
    const more = page.search ? ["resize", page.search.graph] : [];
    const names = [...new Set(["preprocess", "features", "head", ...(page.classes.length ? ["scores"] : []), ...more])];
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
    const before = sum(this.page.classes.slice(0, index).map(({ shots }) => shots));
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

  // Find the subjects of a photo, as `Finder.box` and `Classifier.subjects` do: { box: [left, top, width, height] in pixels
  // of the whole photo, pixels, map }. It is one, unless the project searches for all. The whole photo has no box, and is
  // the subject only of a new photo, not of an example of the class `own`.
  async find(pixels, classes, fewest, own) {
    const { longest, least } = this.page.search;
    const small = shrunk(pixels, longest), isAll = least !== null && own === undefined;
    const looks = isAll || own !== undefined ? [] : [{ box: null, map: await this.embed(small) }];
    for (const windows of await this.#windows(small, classes, fewest, own)) {
      const found = windows.map(({ part }) => ({ part, box: boxOf(part, pixels.full) }));
      for (const look of isAll ? distinct(found, this.page.search) : found.slice(0, 1)) {
        looks.push({ ...look, map: await this.embed(cut(small, boxOf(look.part, small))) });
      }
    }
    for (const look of looks) {
      const scores = await this.score(look.map, classes, fewest), errors = scores.map(({ error }) => error);
      const place = own === undefined ? undefined : scores.findIndex(({ name }) => name === classes[own].name);
      const value = margin(errors, square(look.map) / this.r, place);
      Object.assign(look, { margin: isAll ? value * Math.sqrt(look.box[2]) : value, known: scores[0].known });
    }
    looks.sort((a, b) => b.margin - a.margin);
    const best = isAll ? distinct(looks.filter((look) => !(look.known < least)), this.page.search) : looks.slice(0, 1);
    for (const look of best) {
      look.pixels = look.box ? cut(pixels, boxOf(look.part, pixels)) : pixels;
      if (small !== pixels) look.map = await this.embed(look.pixels);
    }
    return best;
  }

  // The windows of a photo, as `Finder.windows` yields them.
  async #windows(pixels, classes, fewest, own) {
    const { scale, strip, side, sizes, weights, graph } = this.page.search, [h, w] = this.page.grid;
    const unit = scale / Math.min(pixels.width, pixels.height);
    const cells = (least, length) => Math.min(Math.max(least, round(least * length * unit)), round(least * strip * scale));
    const size = [round((cells(h, pixels.height) * side) / h), round((cells(w, pixels.width) * side) / w)];
    const image = new ort.Tensor("uint8", pixels.data, [pixels.height, pixels.width, 3]);
    const { images } = await this.sessions.resize.run({ image, size: new ort.Tensor("int64", BigInt64Array.from(size, BigInt), [2]) });
    const network = this.sessions[graph];
    const { data, dims: [, rows, columns] } = (await network.run({ [network.inputNames[0]]: images }))[network.outputNames[0]];
    const errors = await this.#errors(new Float32Array(data), classes, fewest);
    const vectors = Array.from({ length: rows * columns }, (_, i) => data.subarray(i * this.d, (i + 1) * this.d));
    const lengths = vectors.map(square);
    const norm = Math.sqrt(sum(lengths) / lengths.length); // `Finder.maps` scales maps to a mean energy of 1
    const learned = vectors.map((vector) => norm * vector.reduce((total, value, i) => total + value * weights[i], 0));
    return rankedWindows(errors, lengths, learned, columns, sizes, own);
  }

  // The share of its excess error that each class adds because it has more photos than the smallest one, as in
  // frn/ridge/unequal.py.
  shares(classes, fewest) {
    return classes.map(({ shots }) => this.page.slope * Math.log(Math.max(shots, fewest) / fewest));
  }

  // Errors of a feature map (n * d) by class: those of its locations and, with allowances, their mean; and its energy.
  async #errors(map, classes, fewest) {
    const n = map.length / this.d, energy = square(map) / n, cells = new Array(classes.length);
    const own = [...classes.keys()].filter((i) => classes[i].exported === null);
    if (own.length < classes.length) {
      const maps = Math.ceil(n / this.r), way = this.page.classes.length;
      const padded = new Float32Array(maps * this.r * this.d);
      padded.set(map);
      const feature_map = new ort.Tensor("float32", padded, [maps, this.r, this.d]);
      const { error_map } = await this.sessions.scores.run({ feature_map });
      const place = (exported, i) => (Math.floor(i / this.r) * way + exported) * this.r + (i % this.r);
      classes.forEach(({ exported }, i) => {
        if (exported !== null) cells[i] = Float32Array.from({ length: n }, (_, cell) => error_map.data[place(exported, cell)]);
      });
    }
    if (own.length) {
      // Each location is a separate query, so its class error is its value in the error map.
      const query = new ort.Tensor("float32", map, [n, 1, this.d]);
      const errors = await this.#head(own.map((i) => classes[i].maps), query);
      own.forEach((i, column) => {
        cells[i] = Float32Array.from({ length: n }, (_, row) => errors[row * own.length + column]);
      });
    }
    const shares = this.shares(classes, fewest), { usual } = this.page;
    const means = cells.map((errors, i) => withAllowance(sum(errors) / n, energy, shares[i], usual));
    return { energy, cells, means, shares, usual };
  }

  // Score a feature map with all classes, best first: { name, error, explained, probability, known, errorMap }.
  async score(map, classes, fewest) {
    const { energy, cells, means } = await this.#errors(map, classes, fewest);
    const found = classes.map(({ name }, i) => (
      { name, error: means[i], errorMap: cells[i], explained: energy ? Math.max(0, 1 - means[i] / energy) : 0 }
    ));
    const least = Math.min(...found.map(({ error }) => error));
    const weights = found.map(({ error }) => Math.exp(-this.page.gamma * (error - least)));
    const total = sum(weights);
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
      Math.log(sum(rivals) / rivals.length) - best,
      second - best,
      Math.log(found[ranked[0]].probability),
    ];
    const terms = [-best, ...compared, Math.max(...near), near[ranked[0]]];
    // The mean of what classes with few photos add, as in `mean_offsets`.
    const most = Math.max(...shots);
    const roots = found.map(({ probability }) => Math.sqrt(probability));
    const added = sum(roots.map((root, i) => root * Math.log(most / shots[i]))) * this.page.offset;
    const start = bias + added / sum(roots);
    return margin + (1 - 2 * margin) / (1 + Math.exp(-start - sum(terms.map((term, i) => weights[i] * term))));
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
    const total = new Float64Array(this.d);
    for (const map of maps) map.forEach((value, i) => (total[i % this.d] += value));
    return total.map((value) => value / (maps.length * this.r));
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
