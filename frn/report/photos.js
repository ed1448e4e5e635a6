"use strict";
const list = document.getElementById("photos");
const cards = [...list.children];
const [filter, sort, maps, shown] = ["filter", "sort", "maps", "shown"].map((id) => document.getElementById(id));

function show() {
  const way = Number(sort.value);
  const order = (card) => Number(card.dataset.sure) - (card.dataset.key === "?" ? 1 : 0);
  cards.sort((a, b) => way * (order(a) - order(b)));
  for (const card of cards) {
    card.hidden = filter.value !== "" && card.dataset.key !== filter.value;
    list.append(card);
  }
  const left = cards.filter((card) => !card.hidden).length;
  shown.textContent = `${left} of ${cards.length} photos`;
}

filter.addEventListener("change", show);
sort.addEventListener("change", show);
maps.addEventListener("change", () => list.classList.toggle("maps", maps.checked));
show();

// Why: the parts of a photo that decided, and the example parts that each class rebuilds them from.
const why = document.getElementById("why");
const percent = (share) => `${Math.round(100 * share)}%`;
let open = null; // { svg, at }: the photo and the number of its part

function element(tag, text, ...children) {
  const made = Object.assign(document.createElement(tag), { textContent: text });
  made.append(...children);
  return made;
}

// A part of a photo, with a frame around a smaller one; boxes are in percent of its sides.
function tile(photo, [x, y, w, h], caption, inside) {
  const canvas = Object.assign(document.createElement("canvas"), { width: 96, height: 96, title: photo.alt });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${photo.alt}, ${caption}`);
  photo.loading = "eager"; // hidden photos would never load
  photo.decode().then(() => {
    const pen = canvas.getContext("2d"), { naturalWidth: wide, naturalHeight: high } = photo;
    pen.drawImage(photo, ...[x * wide, y * high, w * wide, h * high].map((edge) => edge / 100), 0, 0, 96, 96);
    Object.assign(pen, { strokeStyle: getComputedStyle(why).borderTopColor, lineWidth: 3 });
    if (inside) pen.strokeRect(...[(inside[0] - x) / w, (inside[1] - y) / h, inside[2] / w, inside[3] / h].map((edge) => 96 * edge));
  });
  return element("figure", "", canvas, element("figcaption", caption));
}

function explain(svg, at) {
  const parts = JSON.parse(svg.dataset.parts);
  at = (at + parts.length) % parts.length;
  if (open) for (const rect of open.svg.children) rect.classList.remove("on");
  open = { svg, at };
  svg.children[at].classList.add("on");
  const { box, shown, share, classes } = parts[at];
  const photo = svg.parentElement.querySelector("img");
  const decides = share < 0 ? `speaks for ${classes[1].name}` : `decides ${percent(share)}`;
  const rows = classes.map(({ name, explained, from }) => element("section", "",
    element("p", `rebuilt from ${name}: ${percent(explained)} explained`),
    ...from.map(([number, x, y, w, h, part]) =>
      tile(document.querySelector(`[data-example="${number}"] img`), [x, y, w, h], percent(part)))));
  const close = element("button", "close");
  close.addEventListener("click", shut);
  why.replaceChildren(
    element("p", `${svg.getAttribute("aria-label")}.`, close),
    element("div", "", element("section", "", element("p", `part ${at + 1} of ${parts.length}`), tile(photo, shown, decides, box)), ...rows));
  why.hidden = false;
}

function shut() {
  if (open) for (const rect of open.svg.children) rect.classList.remove("on");
  open = null;
  why.hidden = true;
}

list.addEventListener("pointerover", ({ target }) => {
  if (target.closest("rect")) explain(target.parentElement, [...target.parentElement.children].indexOf(target));
});
list.addEventListener("click", ({ target }) => {
  const svg = target.closest(".why");
  if (svg) explain(svg, Math.max(0, [...svg.children].indexOf(target)));
});
list.addEventListener("focusin", ({ target }) => {
  if (target.matches(".why") && open?.svg !== target) explain(target, 0);
});
document.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") shut();
  else if (step && open && document.activeElement === open.svg) {
    event.preventDefault();
    explain(open.svg, open.at + step);
  }
});
