// The page: classifies photos, and lets visitors add and correct classes.

import { explain } from "./explanation.js";
import { Model, threads } from "./model.js";
import { decode, draw, drawFrame, pictureOf } from "./photo.js";
import { forget, load, save } from "./store.js";

const BARS = 5;
const BOX = "#xywh="; // names a part of a photo, as in projects
const by = (id) => document.getElementById(id);
const status = by("status");

let model;
let classes = []; // { name, exported: index or null, shots, maps, photos }: never changed in place, so undo is a list
const before = [];
const answers = []; // { name, map, picture, frame, card, found }
const pictures = new WeakMap(); // of the visitor's own examples, while the page is open
const numbers = new Map(); // of the example photos that have been shown
let work = Promise.resolve(); // one photo at a time, because the graphs share memory

const queue = (task) => (work = work.then(task).catch((error) => say(`Error: ${error.message}`)));
const say = (text) => (status.textContent = text);

function once(task) {
  let done = false;
  return () => {
    if (!done) task();
    done = true;
  };
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Corrections belong to this page and these classes: another export, or a page elsewhere on the host, has its own.
const key = () => `${new URL(".", location).pathname} ${model.page.id}`;

const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}%`;

// Classes

const withMaps = (name, maps, photos) => ({ name, exported: null, shots: maps.length, maps, photos });

const mapsOf = async (entry) => entry.maps ?? (await model.exportedMaps(entry.exported));

async function change(next) {
  before.push(classes);
  await adopt(next);
}

async function adopt(next) {
  classes = next;
  await save(key(), classes);
  showClasses();
  for (const answer of answers) await rescore(answer);
}

// Add photos { name, map, picture } to a class, which may be new.
async function addExamples(name, added, others = classes) {
  const known = others.find((entry) => entry.name === name);
  const photos = added.map(({ name, picture }) => {
    const photo = { name, src: null };
    pictures.set(photo, picture);
    return photo;
  });
  const maps = [...(known ? await mapsOf(known) : []), ...added.map(({ map }) => map)];
  const made = withMaps(name, maps, [...(known?.photos ?? []), ...photos]);
  await change(known ? others.map((entry) => (entry === known ? made : entry)) : [...others, made]);
}

const fewest = () => Math.min(...classes.map(({ shots }) => shots));

const placeOf = ({ map }, { maps }) => maps?.findIndex((other) => other.every((value, i) => value === map[i])) ?? -1;

const holderOf = (answer) => classes.find((entry) => placeOf(answer, entry) >= 0);

// The classes without a photo: it is not its own witness, as for examples in `frn classify`.
function without(answer) {
  const holder = holderOf(answer);
  if (!holder) return classes;
  const place = placeOf(answer, holder), rest = (list) => list.toSpliced(place, 1);
  const made = holder.shots > 1 ? [withMaps(holder.name, rest(holder.maps), rest(holder.photos))] : [];
  return classes.flatMap((entry) => (entry === holder ? made : [entry]));
}

async function correct(answer, name) {
  if (holderOf(answer)?.name === name) return;
  await addExamples(name, [answer], without(answer)); // an earlier correction may have put it into another class
  say(`${answer.name} is now an example of ${name}.`);
}

function showClasses() {
  by("classes").replaceChildren(...classes.map((entry) => {
    const files = element("input", { type: "file", accept: "image/*", multiple: true, ariaLabel: `Add photos to ${entry.name}` });
    files.addEventListener("change", () => learn(entry.name, [...files.files]));
    const remove = element("button", { textContent: "remove", ariaLabel: `Remove ${entry.name}` });
    remove.addEventListener("click", () => queue(() => change(classes.filter((other) => other !== entry))));
    const count = element("span", { className: "faint", textContent: `${entry.shots} example${entry.shots === 1 ? "" : "s"}` });
    const more = element("label", { className: "button", textContent: "add" });
    more.append(files);
    const row = element("li", {}, element("b", { textContent: entry.name }), count, more, remove);
    row.dataset.name = entry.name;
    row.dataset.shots = entry.shots;
    return row;
  }));
  by("hint").textContent = classes.length
    ? "A photo is unknown if no class explains enough of it."
    : "No classes yet. Enter a name and add a few photos. The class takes effect at once, without training.";
  by("undo").disabled = !before.length;
  by("reset").disabled = !before.length && classes.every((entry) => entry.exported !== null);
}

// Answers

async function rescore(answer) {
  const others = without(answer);
  answer.found = others.length ? await model.score(answer.map, others, fewest()) : [];
  hidePart();
  showAnswer(answer);
}

// Compute what decided when a visitor first points at a photo or moves to it, and draw its parts.
async function addParts(svg, { map, found: [best, second] }, others, unknown) {
  const shares = model.shares(others, fewest()), { usual } = model.page;
  const [first, other] = await Promise.all([best, second].map(async (one) => {
    const place = others.findIndex(({ name }) => name === one?.name), entry = others[place];
    return entry && { name: entry.name, maps: await mapsOf(entry), photos: entry.photos, share: shares[place], usual };
  }));
  const { why, parts } = explain(map, first, other, model.page, numberOf, unknown);
  svg.ariaLabel = why;
  svg.dataset.parts = JSON.stringify(parts);
  svg.replaceChildren(...parts.map(({ box }) => {
    const rect = document.createElementNS(svg.namespaceURI, "rect");
    ["x", "y", "width", "height"].forEach((name, i) => rect.setAttribute(name, box[i]));
    return rect;
  }));
  if (svg.matches(":hover, :focus")) showPart(svg, 0);
}

// The number of an example photo in the page; it is added with its picture, if it has one.
function numberOf(photo) {
  if (!numbers.has(photo)) {
    const shown = element("span", { title: photo.name });
    shown.dataset.example = numbers.size;
    if (photo.src) shown.append(element("img", { src: photo.src, alt: photo.name }));
    else if (pictures.has(photo)) draw(shown.appendChild(element("canvas")), pictures.get(photo), model.page, null);
    by("example-photos").append(shown);
    numbers.set(photo, numbers.size);
  }
  return numbers.get(photo);
}

function showAnswer(answer) {
  const { card, found, name, frame } = answer, holder = holderOf(answer);
  const best = found[0];
  const unknown = best && best.known < model.page.rule.threshold;
  const canvas = element("canvas", { role: "img", ariaLabel: best ? `${name}: ${unknown ? "unknown" : best.name}` : name });
  draw(canvas, answer.picture, model.page, by("maps").checked ? best?.errorMap : null);
  const view = element("div", { className: "plain" }, canvas);
  if (best) {
    const svg = by("parts").content.firstElementChild.cloneNode();
    svg.ariaLabel = `why ${name} is ${unknown ? "unknown" : best.name}`;
    const others = without(answer), start = once(() => queue(() => addParts(svg, answer, others, unknown)));
    for (const event of ["pointerenter", "focus", "click"]) svg.addEventListener(event, start);
    view.append(svg);
  }
  const title = element("p", { className: "title" });
  if (!best) title.append(classes.length ? "Its class has no other example." : "No classes yet.");
  else if (unknown) title.append(element("b", { className: "bad", textContent: "unknown" }), `, nearest ${best.name}`);
  else title.append(element("b", { textContent: best.name }), ` ${percent(best.probability)}`);
  const bars = element("ul", { className: "bars" }, ...found.slice(0, BARS).map((entry) => {
    const meter = element("meter", { min: 0, max: 1, value: entry.probability, ariaLabel: entry.name });
    return element("li", {}, element("span", { textContent: entry.name }), meter, element("span", { textContent: percent(entry.probability) }));
  }));
  const known = best && best.known === best.known ? `${percent(best.known, 0)} known · ` : "";
  const example = holder ? [element("p", { className: "faint", textContent: `an example of ${holder.name}, evaluated by leave-one-out` })] : [];
  const about = element("p", { className: "faint", textContent: `${known}${name}` });
  card.replaceChildren(view, title, bars, ...example, about, ...(frame ? [frame] : []), correction(answer, best, unknown));
  Object.assign(card.dataset, { photo: name, label: best?.name ?? "", probability: best?.probability ?? "", known: best?.known ?? "", unknown: Boolean(unknown) });
}

function correction(answer, best, unknown) {
  const choice = element("select", { ariaLabel: `What ${answer.name} is` },
    ...classes.map(({ name }) => element("option", { value: `=${name}`, textContent: name })),
    element("option", { value: "+", textContent: "a new class …" }));
  const second = answer.found[1] ?? best;
  if (best) choice.value = `=${(unknown ? best : second).name}`;
  const go = element("button", { textContent: "It is" });
  go.addEventListener("click", () => {
    const name = choice.value === "+" ? prompt("Name of the class")?.trim() : choice.value.slice(1);
    if (name) queue(() => correct(answer, name));
  });
  return element("p", { className: "correct" }, go, choice);
}

// Read a photo or, if subjects are searched for, its subjects; `name` is the class of an example. A class whose examples
// have no boxes keeps whole photos, as in `frn enroll`.
async function read(file, name) {
  try {
    const pixels = await decode(file), own = classes.findIndex((entry) => entry.name === name);
    const searched = name === undefined ? classes.length : classes[own]?.photos.some((photo) => photo.name.includes(BOX));
    const found = model.page.search && searched
      ? await model.find(pixels, classes, fewest(), name === undefined ? undefined : own)
      : [{ map: await model.embed(pixels) }];
    const seen = [];
    for (const { box, map, pixels: part } of found) {
      if (!box) {
        seen.push({ name: file.name, map, picture: pixels.picture });
        continue;
      }
      const frame = element("canvas", { className: "frame", role: "img", ariaLabel: `where the subject of ${file.name} is` });
      drawFrame(frame, pixels.picture, pixels.full, box);
      seen.push({ name: `${file.name}${BOX}${box}`, map, picture: await pictureOf(part), frame });
    }
    return { seen, problem: seen.length ? null : `${file.name}: no subject found.` };
  } catch (error) {
    return { seen: [], isBroken: true, problem: `${file.name}: cannot be read as an image (${error.message || error.name})` };
  }
}

// Read files, and use what each shows. Returns how many could be read, and the problems.
async function readAll(files, name, use) {
  const problems = [];
  let count = 0;
  for (const [i, file] of files.entries()) {
    say(name === undefined ? `${i + 1} of ${files.length}: ${file.name}` : `Adding ${file.name} to ${name}`);
    const { seen, isBroken, problem } = await read(file, name);
    if (problem) problems.push(problem);
    count += !isBroken;
    for (const each of seen) await use(each);
  }
  return { count, problems };
}

function classify(files) {
  queue(async () => {
    const counts = new Map();
    const { count, problems } = await readAll(files, undefined, async (seen) => {
      const answer = { ...seen, card: element("li", { className: "card" }) };
      answers.push(answer);
      await rescore(answer);
      by("answers").prepend(answer.card);
      const { label, unknown } = answer.card.dataset;
      if (unknown === "false") counts.set(label, (counts.get(label) ?? 0) + 1);
    });
    const ranked = [...counts].sort((a, b) => b[1] - a[1]).map(([label, number]) => `${number} ${label}`);
    const subjects = model.page.search?.least == null ? [] : [`Subjects: ${ranked.join(", ") || "none"}.`];
    say([`${count} of ${files.length} photos classified.`, ...subjects, ...problems].join(" "));
  });
}

function learn(name, files) {
  queue(async () => {
    const photos = [];
    const { problems } = await readAll(files, name, (seen) => photos.push(seen));
    if (photos.length) await addExamples(name, photos);
    say([`${photos.length} photos added to ${name}.`, ...problems].join(" "));
  });
}

// Camera

async function openCamera() {
  const video = document.querySelector("video");
  try {
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    await video.play();
    by("viewfinder").hidden = false;
    by("take").focus();
  } catch (error) {
    say(`The camera cannot be used (${error.message}).`);
  }
}

function closeCamera() {
  const video = document.querySelector("video");
  for (const track of video.srcObject?.getTracks() ?? []) track.stop();
  video.srcObject = null;
  by("viewfinder").hidden = true;
  by("camera").focus();
}

async function takePhoto() {
  const video = document.querySelector("video");
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  canvas.getContext("2d").drawImage(video, 0, 0);
  const blob = await canvas.convertToBlob();
  classify([new File([blob], `camera ${new Date().toLocaleTimeString()}.png`, { type: blob.type })]);
}

// Start

// sw.js isolates the page only from its second opening on, so the first opening reloads it once.
async function isolated() {
  if (self.crossOriginIsolated || !navigator.serviceWorker) return true;
  try {
    await navigator.serviceWorker.register("sw.js");
    if (sessionStorage.getItem("opened")) return true;
    say("Storing the page for offline use …");
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller) {
      await new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true }));
    }
    sessionStorage.setItem("opened", "1");
    location.reload();
    return false;
  } catch {
    return true; // if the browser forbids the service worker, the page uses one thread and needs the server
  }
}

function listen() {
  const taken = (input, use) => input.addEventListener("change", () => {
    use([...input.files]);
    input.value = "";
  });
  taken(by("files"), classify);
  taken(by("examples"), (files) => {
    if (by("add").reportValidity()) learn(by("name").value.trim(), files);
  });
  by("add").addEventListener("submit", (event) => event.preventDefault());
  by("maps").addEventListener("change", () => answers.forEach(showAnswer));
  by("undo").addEventListener("click", () => queue(() => adopt(before.pop())));
  by("reset").addEventListener("click", () => queue(async () => {
    await change(model.exportedClasses());
    await forget(key());
  }));
  by("camera").addEventListener("click", openCamera);
  by("close").addEventListener("click", closeCamera);
  by("take").addEventListener("click", takePhoto);
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    classify([...event.dataTransfer.files]);
  });
  for (const id of ["files", "examples"]) by(id).disabled = false;
  by("camera").disabled = !navigator.mediaDevices;
}

async function start() {
  if (!(await isolated())) return;
  say("Opening the model …");
  model = await Model.open();
  classes = (await load(key())) ?? model.exportedClasses();
  showClasses();
  listen();
  say(`Ready, on ${threads} thread${threads === 1 ? "" : "s"}.`);
}

start().catch((error) => say(`The page cannot be opened: ${error.message}`));
