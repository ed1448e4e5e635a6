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
