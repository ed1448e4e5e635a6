"use strict";
// Why: the parts of a photo that decided, and the example parts that each class rebuilds them from. Reports and the page
// of `frn export --web` share this script: it fills #why from the data-parts of an svg.why, with photos of #examples.
const why = document.getElementById("why");
const TILE = 96;
let current = null; // { svg, at }: the photo and the number of its part

function tagged(tag, text, ...children) {
  const made = Object.assign(document.createElement(tag), { textContent: text });
  made.append(...children);
  return made;
}

const inPercent = (share) => `${Math.round(100 * share)}%`;

// A part of a photo, with a frame around a smaller one; boxes are in percent of its sides. Without a picture, the frame
// shows where in the photo the part lies.
function tile(photo, name, box, caption, inside) {
  const canvas = Object.assign(document.createElement("canvas"), { width: TILE, height: TILE, title: name });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${name}, ${caption}`);
  const pen = canvas.getContext("2d");
  const frame = ([left, top, width, height], [x, y, w, h]) => {
    Object.assign(pen, { strokeStyle: getComputedStyle(why).borderTopColor, lineWidth: 3 });
    pen.strokeRect(...[(left - x) / w, (top - y) / h, width / w, height / h].map((edge) => TILE * edge));
  };
  const draw = () => {
    const [x, y, w, h] = box, { naturalWidth: wide = photo.width, naturalHeight: high = photo.height } = photo;
    pen.drawImage(photo, ...[x * wide, y * high, w * wide, h * high].map((edge) => edge / 100), 0, 0, TILE, TILE);
    if (inside) frame(inside, box);
  };
  if (!photo) frame(box, [0, 0, 100, 100]);
  else if (photo.decode) {
    photo.loading = "eager"; // hidden photos would never load
    photo.decode().then(draw);
  } else draw();
  return tagged("figure", "", canvas, tagged("figcaption", photo ? caption : `${caption} ${name}`));
}

function showPart(svg, at) {
  if (!svg.dataset.parts) return;
  const parts = JSON.parse(svg.dataset.parts);
  at = (at + parts.length) % parts.length;
  hidePart();
  current = { svg, at };
  svg.children[at].classList.add("on");
  const { box, shown: around, share, classes } = parts[at];
  const photo = svg.parentElement.querySelector("img, canvas");
  const decides = share < 0 ? `speaks for ${classes[1].name}` : `decides ${inPercent(share)}`;
  const rows = classes.map(({ name, explained, from }) => tagged("section", "",
    tagged("p", `rebuilt from ${name}: ${inPercent(explained)} explained`),
    ...from.map(([number, x, y, w, h, part]) => {
      const example = document.querySelector(`[data-example="${number}"]`);
      return tile(example.firstElementChild, example.title, [x, y, w, h], inPercent(part));
    })));
  const close = tagged("button", "close");
  close.addEventListener("click", hidePart);
  why.replaceChildren(
    tagged("p", `${svg.getAttribute("aria-label")}.`, close),
    tagged("div", "", tagged("section", "", tagged("p", `part ${at + 1} of ${parts.length}`), tile(photo, "the photo", around, decides, box)), ...rows));
  why.hidden = false;
}

function hidePart() {
  if (current) for (const rect of current.svg.children) rect.classList.remove("on");
  current = null;
  why.hidden = true;
}

document.addEventListener("pointerover", ({ target }) => {
  if (target.closest(".why rect")) showPart(target.parentElement, [...target.parentElement.children].indexOf(target));
});
document.addEventListener("click", ({ target }) => {
  const svg = target.closest(".why");
  if (svg) showPart(svg, Math.max(0, [...svg.children].indexOf(target)));
});
document.addEventListener("focusin", ({ target }) => {
  if (target.matches(".why") && current?.svg !== target) showPart(target, 0);
});
document.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") hidePart();
  else if (step && current && document.activeElement === current.svg) {
    event.preventDefault();
    showPart(current.svg, current.at + step);
  }
});
