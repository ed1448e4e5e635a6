// Why a photo got its answer: the parts that decided, and the example parts that each was rebuilt from.
//
// The same sums, limits and words as frn/inference/explanation.py. Maps are arrays of r * d numbers; matrices are stored
// by rows. Boxes are [x, y, width, height] in cells of the error map's grid.

const FEWEST = 3, MOST = 5, MINOR = 0.05, ALIKE = 0.8, SOURCES = 3, SIDE = 0.5;

const sum = (values) => values.reduce((total, value) => total + value, 0);
const ranked = (count, value) => [...Array(count).keys()].sort((a, b) => value(b) - value(a)); // stable, the largest first
const percent = (share) => `${Math.round(100 * share)}%`;

// Explain why `best` and not `other` (or null): { why, parts } as in the data-parts of reports. A class is { name, maps,
// photos, share, usual }, the last two its allowance; `number` returns the number of an example photo; `ridge` is
// { lambda, floor, rho } of the page.
export function explain(map, best, other, { grid, channels, ridge }, number, unknown) {
  const classes = [best, ...(other ? [other] : [])].map((entry) => rebuild(map, entry, grid, channels, ridge));
  const [first, second] = classes;
  const decided = first.errors.map((error, i) => (second ? second.errors[i] : first.energies[i]) - error);
  const margin = sum(decided);
  const shares = decided.map((share) => (margin ? share / margin : 1 / decided.length));
  const parts = deciding(allParts(shares, first, grid));
  const of = (box) => box.map((edge, i) => round((100 * edge) / grid[1 - (i % 2)], 10));
  return {
    why: sentence(parts, first, second, unknown),
    parts: parts.map(({ box, share }) => ({
      box: of(box),
      shown: of(around(box, grid)),
      share: round(share, 1000),
      classes: classes.map((one) => ({
        name: one.name,
        explained: round(one.explained([box]), 1000),
        from: one.sources(box).map((source) => [number(source.photo), ...of(source.box), round(source.share, 1000)]),
      })),
    })),
  };
}

const round = (value, steps) => Math.round(value * steps) / steps;

// How a class rebuilds a map: errors and energies of the cells, and what it explains of parts, from which example parts.
function rebuild(map, { name, maps, photos, share, usual }, [h, w], d, { lambda, floor, rho }) {
  const r = h * w, k = maps.length, p = k * r, query = Float64Array.from(map);
  const pool = new Float64Array(p * d);
  maps.forEach((each, i) => pool.set(each, i * r * d));
  const seen = products(query, pool, r, p, d), columns = transposed(pool, p, d);
  const lam = (p / d) * lambda + floor;
  // Weights w = rho q S^T (S S^T + lam I)^-1, or the same from the moments S^T S if these are smaller.
  const weights = p <= d
    ? solve(gram(pool, p, d), lam, Float64Array.from(seen), p, r)
    : products(solve(gram(columns, d, p), lam, Float64Array.from(query), d, r), pool, r, p, d);
  const rebuilt = products(weights, columns, r, d, p);
  const taken = seen.map((product, i) => rho * weights[i] * product); // r, p
  const errors = new Float64Array(r), energies = new Float64Array(r);
  query.forEach((value, i) => {
    const cell = Math.floor(i / d);
    errors[cell] += (value - rho * rebuilt[i]) ** 2;
    energies[cell] += value ** 2;
  });
  if (sum(errors) > usual * sum(energies)) errors.forEach((error, i) => (errors[i] += share * (error - usual * energies[i])));
  const inside = ([x, y, wide, high]) =>
    Array.from({ length: wide * high }, (_, i) => (y + Math.floor(i / wide)) * w + x + (i % wide));

  function explained(boxes) {
    const cells = boxes.flatMap(inside);
    const energy = sum(cells.map((cell) => energies[cell]));
    return energy ? Math.max(0, 1 - sum(cells.map((cell) => errors[cell])) / energy) : 0;
  }

  // The example parts with the largest shares that do not overlap.
  function sources(box) {
    const cells = inside(box);
    const origin = Float64Array.from({ length: p }, (_, j) => sum(cells.map((cell) => taken[cell * p + j])));
    const total = sum(origin);
    const [high, wide] = [h, w].map((length) => Math.max(1, Math.ceil(SIDE * length)));
    const windows = [];
    for (let i = 0; i < k; i++) for (let y = 0; y <= h - high; y++) for (let x = 0; x <= w - wide; x++) {
      const part = [x, y, wide, high];
      const share = sum(inside(part).map((cell) => origin[i * r + cell])) / (total > 0 ? total : 1);
      windows.push({ photo: photos[i], box: part, share });
    }
    const chosen = [];
    for (const place of ranked(windows.length, (i) => windows[i].share)) {
      const one = windows[place];
      if (chosen.length < SOURCES && !chosen.some((each) => each.photo === one.photo && overlap(each.box, one.box))) chosen.push(one);
    }
    return chosen;
  }
  return { name, errors, energies, explained, sources, origins: taken, size: p };
}

const overlap = (a, b) => [0, 1].every((i) => Math.abs(2 * (a[i] - b[i]) + a[i + 2] - b[i + 2]) < a[i + 2] + b[i + 2]);

// Divide the photo into rectangles of at most a third of its height and width, the largest shares first.
function allParts(shares, { origins, size }, [h, w]) {
  const row = (cell) => origins.subarray(cell * size, (cell + 1) * size);
  const dot = (a, b) => a.reduce((total, value, i) => total + value * b[i], 0);
  const length = Array.from(shares, (_, cell) => Math.max(Math.sqrt(dot(row(cell), row(cell))), Number.MIN_VALUE));
  const unused = Array(h * w).fill(true), parts = [];
  const most = [w, h].map((side) => Math.ceil(side / 3));
  for (const cell of ranked(h * w, (i) => Math.abs(shares[i]))) {
    if (!unused[cell]) continue;
    const fits = unused.map((free, i) => free
      && dot(row(i), row(cell)) >= ALIKE * length[i] * length[cell]
      && 2 * shares[i] * Math.sign(shares[cell]) >= Math.abs(shares[cell]));
    const within = ([x, y, wide, high]) => {
      const cells = [];
      for (let v = y; v < y + high; v++) for (let u = x; u < x + wide; u++) cells.push(v * w + u);
      return cells;
    };
    let box = [cell % w, Math.floor(cell / w), 1, 1];
    for (let wider = box; wider; ) {
      box = wider;
      const [x, y, wide, high] = box;
      wider = [
        x > 0 && [x - 1, y, wide + 1, high],
        y > 0 && [x, y - 1, wide, high + 1],
        x + wide < w && [x, y, wide + 1, high],
        y + high < h && [x, y, wide, high + 1],
      ].find((one) => one && one[2] <= most[0] && one[3] <= most[1] && within(one).every((i) => fits[i]));
    }
    for (const i of within(box)) unused[i] = false;
    parts.push({ box, share: sum(within(box).map((i) => shares[i])) });
  }
  return parts;
}

// The parts with the largest shares until they make up half of the decision, and the one that speaks most against it.
function deciding(all) {
  const parts = ranked(all.length, (i) => all[i].share).map((i) => all[i]);
  const chosen = [], against = parts.slice(-1).filter(({ share }) => share < -MINOR);
  for (const part of parts.slice(0, MOST - against.length)) {
    if (part.share <= 0 || (chosen.length >= FEWEST && sum(chosen.map(({ share }) => share)) >= 0.5)) break;
    chosen.push(part);
  }
  return [...chosen, ...against];
}

function sentence(parts, best, other, unknown) {
  const boxes = parts.filter(({ share }) => share > 0).map(({ box }) => box), many = boxes.length > 1;
  const named = { 1: "part 1", 2: "parts 1 and 2" }[boxes.length] ?? `parts 1 to ${boxes.length}`;
  const makes = many ? "make" : "makes";
  const share = sum(parts.slice(0, boxes.length).map((part) => part.share));
  const answer = unknown ? `unknown; nearest ${best.name}` : best.name;
  const explains = `${best.name} explains ${percent(best.explained(boxes))} of ${many ? "these parts" : "this part"}`;
  if (!other) return `${answer}: ${named} ${makes} up ${percent(share)} of what it explains; ${explains}`;
  const held = share <= 1 ? `${makes} up ${percent(share)} of the decision` : `outweigh${many ? "" : "s"} the rest`;
  const text = `${answer} rather than ${other.name}: ${named} ${held}; ${explains}, ${other.name} ${percent(other.explained(boxes))}`;
  return parts.length > boxes.length ? `${text}; part ${parts.length} speaks for ${other.name}` : text;
}

// A box of half of the grid's sides with the same centre, moved into the grid.
function around([x, y, width, height], [h, w]) {
  const [high, wide] = [h, w].map((length) => Math.max(1, Math.ceil(SIDE * length)));
  const place = (start, side, most, all) => Math.min(Math.max(0, Math.floor((2 * start + side - most + 1) / 2)), all - most);
  return [place(x, width, wide, w), place(y, height, high, h), wide, high];
}

// A B^T (m, n) of A (m, d) and B (n, d).
function products(a, b, m, n, d) {
  const out = new Float64Array(m * n);
  for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) {
    let total = 0;
    for (let c = 0; c < d; c++) total += a[i * d + c] * b[j * d + c];
    out[i * n + j] = total;
  }
  return out;
}

// A A^T (m, m) of A (m, d).
function gram(a, m, d) {
  const out = new Float64Array(m * m);
  for (let i = 0; i < m; i++) for (let j = 0; j <= i; j++) {
    let total = 0;
    for (let c = 0; c < d; c++) total += a[i * d + c] * a[j * d + c];
    out[i * m + j] = out[j * m + i] = total;
  }
  return out;
}

function transposed(a, m, n) {
  const out = new Float64Array(m * n);
  for (let i = 0; i < m; i++) for (let j = 0; j < n; j++) out[j * m + i] = a[i * n + j];
  return out;
}

// Return B (A + lam I)^-1 of symmetric A (n, n) and B (m, n) by Cholesky; both are overwritten.
function solve(a, lam, b, n, m) {
  for (let i = 0; i < n; i++) {
    a[i * n + i] += lam;
    for (let j = 0; j <= i; j++) {
      let total = a[i * n + j];
      for (let c = 0; c < j; c++) total -= a[i * n + c] * a[j * n + c];
      a[i * n + j] = i === j ? Math.sqrt(total) : total / a[j * n + j];
    }
  }
  const upper = transposed(a, n, n);
  for (let row = 0; row < m * n; row += n) {
    for (let i = 0; i < n; i++) {
      let total = b[row + i];
      for (let c = 0; c < i; c++) total -= a[i * n + c] * b[row + c];
      b[row + i] = total / a[i * n + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      let total = b[row + i];
      for (let c = i + 1; c < n; c++) total -= upper[i * n + c] * b[row + c];
      b[row + i] = total / upper[i * n + i];
    }
  }
  return b;
}
