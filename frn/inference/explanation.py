"""Why a photo got its answer: the parts that decided, and the example parts that each was rebuilt from.

A class reconstructs a location q as w S, with w = rho q S^T (S S^T + lam I)^-1. Two exact sums follow:

    q . (w S) = sum_j w_j (s_j . q)                  what is rebuilt, by example locations s_j
    logit_A - logit_B = gamma mean_r (e_B,r - e_A,r)     the decision, by the photo's locations r

A class's allowance (`ridge.unequal`) is a share of what the photo's error exceeds the usual one by. The same share of
what the error of each location exceeds, which may be negative, is added to it, so the sums stay exact. An example is
explained by the others, as in leave-one-out.

Cells are the squares of the error map's grid. A location is a cell; with `--tta views`, where views overlap, it is
spread equally over the cells that it covers.

Shape letters: r locations, k examples, d channels, c = h w cells.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.feature_cache import Maps
from frn.inference.map_classifier import MapClassifier
from frn.projects.session import Support
from frn.ridge.enrolment import NO_ALLOWANCE, Allowance, Array
from frn.ridge.parameters import HeadParameters
from frn.ridge.unequal import without_one

FEWEST, MOST = 3, 5  # number of deciding parts
MINOR = 0.05  # share of the decision below which a part is shown only to reach `FEWEST`
ALIKE = 0.8  # least cosine between the origins of neighbouring cells of a part


Real = NDArray[np.floating]


class Box(NamedTuple):
    """Some cells of a grid: the first column and row, and the numbers of columns and rows."""

    x: int
    y: int
    width: int
    height: int

    def within(self, grid: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return left, top, width and height as fractions of the crop."""
        h, w = grid
        return self.x / w, self.y / h, self.width / w, self.height / h

    def overlaps(self, other: "Box") -> bool:
        return abs(2 * (self.x - other.x) + self.width - other.width) < self.width + other.width and (
            abs(2 * (self.y - other.y) + self.height - other.height) < self.height + other.height
        )


class Source(NamedTuple):
    """A part of an example photo, and its share of what the class rebuilds."""

    photo: Support
    box: Box
    share: float


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How a class reconstructs a photo."""

    name: str
    photos: tuple[Support, ...]  # its k examples; the photo itself is not among them
    taken: Array
    """What each example cell contributes to each cell of the photo, (h, w, k, h, w); their sum is that of q . (w S)."""
    errors: Array  # squared errors of the cells, with the allowance, (h, w)
    energies: Array  # squared lengths of the photo's cells, (h, w)

    def explained(self, *boxes: Box) -> float:
        """Return the share of parts, or of the photo, that the class explains: 1 - error / energy, at least 0."""
        where = [_of(box) for box in boxes or (None,)]
        energy, error = (sum(values[each].sum() for each in where) for values in (self.energies, self.errors))
        return max(0.0, 1 - float(error / energy)) if energy > 0 else 0.0

    def origin(self, box: Box | None = None) -> Array:
        """Return the share of each example cell in what the class rebuilds of a part, (k, h, w); the sum is 1."""
        taken = self.taken[_of(box)].sum((0, 1))
        total = taken.sum()
        return taken / total if total > 0 else taken

    def of_photos(self) -> Array:
        """Return the share of each example in what the class rebuilds of the photo, (k,)."""
        return self.origin().sum((1, 2))

    def sources(
        self, box: Box | None = None, most: int = 3, side: float = 0.5, *, one_each: bool = False
    ) -> list[Source]:
        """Return the example parts with the largest shares; they do not overlap, or are the best of each photo.

        An example part has `side` of the height and width of the map, rounded up to cells; with `side=0` it is a cell.
        """
        k, h, w = self.taken.shape[2:]
        high, wide = (max(1, math.ceil(side * length)) for length in (h, w))
        if not k:
            return []
        shares = np.lib.stride_tricks.sliding_window_view(self.origin(box), (high, wide), axis=(1, 2)).sum((3, 4))
        sources = list[Source]()
        for place in np.argsort(-shares, axis=None, kind="stable"):
            number, y, x = (int(axis) for axis in np.unravel_index(place, shares.shape))
            part, photo = Box(x, y, wide, high), self.photos[number]
            if not any(s.photo is photo and (one_each or s.box.overlaps(part)) for s in sources):
                sources.append(Source(photo, part, float(shares[number, y, x])))
            if len(sources) == most:
                break
        return sources


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a photo: neighbouring cells that are rebuilt from similar example parts."""

    box: Box
    share: float  # share of the decision; negative if it speaks for the other class


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a photo is of one class rather than of another."""

    best: Rebuilt
    other: Rebuilt | None  # the other class; with a single class None, which reconstructs nothing
    margin: float  # difference of the logits
    shares: Array  # share of each cell in the decision, (h, w); the sum is 1

    def parts(self) -> list[Part]:
        """Return the parts with the largest shares, in order: three to five, until they make up half of the decision.

        The last one is the part that speaks most for the other class, if its share is not minor.
        """
        parts = sorted(self._all_parts(), key=lambda part: -part.share)
        deciding, against = list[Part](), [part for part in parts[-1:] if part.share < -MINOR]
        for part in parts[: MOST - len(against)]:
            if part.share <= 0 or (len(deciding) >= FEWEST and sum(each.share for each in deciding) >= 0.5):
                break
            deciding.append(part)
        return deciding + against

    def sentence(self, *, unknown: bool = False) -> str:
        """Return in one sentence what decided; parts are numbered from 1, as in `parts`."""
        best, other, parts = self.best, self.other, self.parts()
        boxes = [part.box for part in parts if part.share > 0]
        named = {1: "part 1", 2: "parts 1 and 2"}.get(len(boxes), f"parts 1 to {len(boxes)}")
        makes, them = ("make", "these parts") if len(boxes) > 1 else ("makes", "this part")
        share = sum(part.share for part in parts[: len(boxes)])
        answer = f"unknown; nearest {best.name}" if unknown else best.name
        explains = f"{best.name} explains {best.explained(*boxes):.0%} of {them}"
        if other is None:
            return f"{answer}: {named} {makes} up {share:.0%} of what it explains; {explains}"
        held = f"{makes} up {share:.0%} of the decision" if share <= 1 else f"outweigh{'s' * (len(boxes) < 2)} the rest"
        text = (
            f"{answer} rather than {other.name}: {named} {held}; {explains}, {other.name} {other.explained(*boxes):.0%}"
        )
        return f"{text}; part {len(parts)} speaks for {other.name}" if len(parts) > len(boxes) else text

    def _all_parts(self) -> list[Part]:
        """Divide the photo into rectangles of at most a third of its height and width, the largest shares first."""
        shares, (h, w) = self.shares, self.shares.shape
        origins = self.best.taken.reshape(h * w, -1)
        length = np.sqrt(np.vecdot(origins, origins)).clip(np.finfo(np.float64).tiny)
        unused, parts = np.ones((h, w), dtype=bool), list[Part]()
        for cell in np.argsort(-np.abs(shares), axis=None, kind="stable"):
            y, x = divmod(int(cell), w)
            if not unused[y, x]:
                continue
            alike = (origins @ origins[cell] >= ALIKE * length * length[cell]).reshape(h, w)
            fits = unused & alike & (2 * shares * np.sign(shares[y, x]) >= abs(shares[y, x]))
            box, grown = Box(x, y, 1, 1), True
            while grown:
                grown = False
                for wider in _extended(box, (h, w)):
                    if wider.width <= math.ceil(w / 3) and wider.height <= math.ceil(h / 3) and fits[_of(wider)].all():
                        box, grown = wider, True
                        break
            unused[_of(box)] = False
            parts.append(Part(box, float(shares[_of(box)].sum())))
        return parts


def explain(
    classifier: MapClassifier,
    maps: Maps,
    key: str | None = None,
    against: str | None = None,
    find: Callable[[str], Maps] | None = None,
) -> Explanation:
    """Explain the decision for a photo with map (r, d) between the best class and another one.

    `find` returns the map of an example by its content key; by default, `MapClassifier.example_maps` finds all of them.

    The other one is `against` or, by default, the second best. If `key` is that of an example, the example is removed
    from its class. Raises FrnError if `against` does not exist or is the best class, or the head is not FRN's.
    """
    if classifier.other is not None:
        raise FrnError(
            f"a {classifier.extractor.method} model cannot say which parts decided. Use one trained with --method frn."
        )
    errors = classifier.predict(maps, key).errors
    best, *others = sorted(errors, key=errors.__getitem__)
    if against == best:
        raise FrnError(f"{against!r} is the answer. Name another class to compare it with.")
    if against is not None and against not in errors:
        shown = ", ".join(islice(errors, 10)) + ", …" * (len(errors) > 10)
        raise FrnError(f"no class is named {against!r}. The classes are {shown}")
    find = find or classifier.example_maps().__getitem__
    counts = [len(entry.supports) for entry in classifier.state.classes]

    def rebuilt(name: str) -> Rebuilt:
        entry = next(entry for entry in classifier.state.classes if entry.name == name)
        photos = tuple(support for support in entry.supports if support.key != key)
        allowance = classifier.classes[name].allowance
        if len(photos) < len(entry.supports):
            allowance = without_one(allowance, len(entry.supports), min(counts))
        pool = np.stack([find(photo.key) for photo in photos]) if photos else np.zeros((0, *maps.shape), np.float32)
        return rebuild(name, photos, maps, pool, classifier.head, classifier.extractor, allowance)

    other = against or (others[0] if others else None)
    return compare(rebuilt(best), rebuilt(other) if other else None, classifier.head.gamma, len(maps))


def rebuild(
    name: str,
    photos: Sequence[Support],
    maps: Real,
    pool: Real,
    head: HeadParameters,
    extractor: Extractor,
    allowance: Allowance = NO_ALLOWANCE,
) -> Rebuilt:
    """Reconstruct a photo's map (r, d) in float64 from those of a class's examples (k, r, d), which may be none."""
    query = maps.astype(np.float64)
    taken, reconstruction = contributions(query, pool, head)
    energies = np.square(query).sum(1)
    errors = np.square(query - reconstruction).sum(1)
    if errors.mean() > allowance.usual * energies.mean():
        errors += allowance.share * (errors - allowance.usual * energies)
    h, w = extractor.grid
    if extractor.tta == "views":
        covers = [extractor.on_grid(np.eye(r)).reshape(r, -1) > 0 for r in (len(query), pool.shape[1])]
        spread, examples = (each / each.sum(1, keepdims=True) for each in covers)  # r, c
        taken = np.einsum("rkj,rc,je->cke", taken, spread, examples, optimize=True)
        errors, energies = errors @ spread, energies @ spread
    shape = (h, w, len(pool), h, w)
    return Rebuilt(name, tuple(photos), taken.reshape(shape), errors.reshape(h, w), energies.reshape(h, w))


def contributions(query: Array, pool: Real, head: HeadParameters) -> tuple[Array, Array]:
    """Return w_j (s_j . q) of each example location, (r, k, r), and the reconstruction (r, d), from maps (k, r, d)."""
    k, r, d = pool.shape
    if not k:
        return np.zeros((len(query), 0, r)), np.zeros_like(query)
    rows = pool.reshape(-1, d).astype(np.float64)
    weights = query @ weights_of(rows, head).T
    return (weights * (query @ rows.T)).reshape(len(query), k, r), weights @ rows


def weights_of(rows: Array, head: HeadParameters) -> Array:
    """Return rho (S S^T + lam I)^-1 S of pool rows S (p, d), whose products with a location q are its weights w."""
    p, d = rows.shape
    lam, rho = head.lam(p, d), head.rho()
    if p <= d:
        return rho * np.asarray(np.linalg.solve(rows @ rows.T + lam * np.eye(p), rows), np.float64)
    return rho * np.asarray(np.linalg.solve(rows.T @ rows + lam * np.eye(d), rows.T).T, np.float64)  # the same


def compare(best: Rebuilt, other: Rebuilt | None, gamma: float, r: int) -> Explanation:
    """Split the decision between two classes for a photo of r locations into shares of its cells."""
    decided: NDArray[np.float64] = gamma / r * ((best.energies if other is None else other.errors) - best.errors)
    margin = float(decided.sum())
    shares = decided / margin if margin else np.full(decided.shape, 1 / decided.size)
    return Explanation(best, other, margin, shares)


def _of(box: Box | None) -> tuple[slice, slice]:
    return (slice(None),) * 2 if box is None else (slice(box.y, box.y + box.height), slice(box.x, box.x + box.width))


def _extended(box: Box, grid: tuple[int, int]) -> list[Box]:
    """Return the box with one more row or column on each side where the grid has one."""
    x, y, wide, high = box
    boxes = [Box(x - 1, y, wide + 1, high)] * (x > 0) + [Box(x, y - 1, wide, high + 1)] * (y > 0)
    boxes += [Box(x, y, wide + 1, high)] * (x + wide < grid[1])
    return boxes + [Box(x, y, wide, high + 1)] * (y + high < grid[0])
