"""Near copies: photos saved again, resized, cropped, framed, mirrored, turned a little, or with other colours.

A photo's look is a small grey image and its mean colour. Two photos are near copies if their looks correlate, or if the
middle of one look correlates with one of many parts of the other, or of its mirror image. Correlation does not depend
on brightness and contrast. Feature maps tell crops of a photo from other photos of its class less well, because they
are trained to be alike within a class.

Shape letters: n photos, m others, t parts, v values of a part.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.transforms import Pixels

SIDE, CELLS = 32, 12  # pixels along the side of a look and of a part
BYTES = SIDE * SIDE + 3  # length of a look
MIDDLE = 0.8  # share of a look's width that is searched in other looks
SCALES, STEP = (0.64, 0.68, 0.72, 0.76, 0.8, 0.85, 0.9, 0.95, 1.0), 0.07
"""Sizes of the parts and the distance between them, as shares of a look's width: crops of a fifth are still found."""
LEAST, LEAST_WHOLE = 0.97, 0.9  # smallest correlations of near copies, of a part and of whole looks
LEAST_ELSEWHERE, LEAST_SAVED = 0.98, 0.97
"""The same for photos of different classes, which are many more pairs; `LEAST_SAVED` also for examples of one class.

Different photos of one object before one background, such as coins, correlate up to 0.95; the same photo saved again,
or with half or twice the side, at least 0.98. `assets/benchmarks/copies.py` measures what is found.
"""
COLOURFUL, HUES = 25, 0.3  # distance from grey from which hues are compared, and smallest cosine of equal hues
COARSE = 4  # cells along the side of a coarse part: those of parts that correlate are close, and few others are
BLOCK, PRODUCTS, KEPT = 64, 2_000_000, 4000
"""Photos and products that are computed at once; photos up to which coarse parts (11 KB each) are kept."""

Floats = NDArray[np.float32]
_EDGES = np.arange(SIDE)[:, None] + (-1, 0, 1)
BLUR = 0.25 * (np.arange(SIDE) == _EDGES.clip(0, SIDE - 1)[..., None]).sum(1, dtype=np.float32)
BLUR += 0.25 * np.eye(SIDE, dtype=np.float32)
"""Weights (1/4, 1/2, 1/4) of neighbouring pixels, (SIDE, SIDE)."""
_GROUPS = np.eye(COARSE, dtype=np.float32).repeat(CELLS // COARSE, 0)
COARSER = np.kron(_GROUPS, _GROUPS) * (COARSE / CELLS)
"""Weights of the cells of a part in its coarse cells, (CELLS², COARSE²); a product with them is the fastest sum."""


def look(crop: Pixels) -> bytes:
    """Return the look of a crop (S, S, 3)."""
    image = Image.fromarray(crop)
    grey = image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    return grey.tobytes() + image.resize((1, 1), Image.Resampling.BOX).tobytes()


class Looks:
    """The looks of photos, ready to be compared with others."""

    def __init__(self, looks: Sequence[bytes]) -> None:
        values = np.frombuffer(b"".join(looks), np.uint8).reshape(len(looks), BYTES).astype(np.float32)
        # Blurred, so that half a pixel between a part and a middle matters little.
        self.greys = BLUR @ values[:, :-3].reshape(-1, SIDE, SIDE) @ BLUR.T
        self.whole = _unit(values[:, :-3])
        self.hues = values[:, -3:] - values[:, -3:].mean(1, keepdims=True)
        middle = _cells(np.array([(1 - MIDDLE) / 2]), MIDDLE)[0]
        mirrored = self.greys[:, :, ::-1]
        self.middles = [_unit((middle @ each @ middle.T).reshape(-1, CELLS**2)) for each in (self.greys, mirrored)]
        """Middles of the looks and of their mirror images, (n, v) each."""

    def __len__(self) -> int:
        return len(self.greys)

    def __getitem__(self, places: NDArray[np.intp]) -> "Looks":
        """Return the looks of some photos, without computing anything again."""
        some = copy(self)
        some.greys, some.whole, some.hues = self.greys[places], self.whole[places], self.hues[places]
        some.middles = [each[places] for each in self.middles]
        some._coarse = None if self._coarse is None else self._coarse[places]
        return some

    @cached_property
    def _coarse(self) -> Floats | None:
        """Coarse parts of the looks, (n, t, v), unless there are too many."""
        if len(self) > KEPT:
            return None
        blocks = range(0, max(len(self), 1), BLOCK)
        return np.concatenate([_coarse(_parts(self.greys[at : at + BLOCK])) for at in blocks])

    def _coarse_parts(self, size: int) -> Iterator[Floats]:
        """Yield the coarse parts of `size` looks at a time, (size, t, v)."""
        for at in range(0, len(self), size):
            block = slice(at, at + size)
            yield _coarse(_parts(self.greys[block])) if self._coarse is None else self._coarse[block]

    def found(self, others: "Looks", least: float = LEAST) -> Iterator[Floats]:
        """Yield how well these looks hold the middles of others, (b, m) for blocks of b looks; 0 below `least`."""
        # Unit vectors that correlate are close, and so are their projections on the means of 3 x 3 cells.
        middles = [(each, _coarse(each, is_part=False)) for each in others.middles]
        size = min(max(PRODUCTS // (PARTS * max(len(others), 1)), 1), BLOCK)
        for at, parts in zip(range(0, len(self), size), self._coarse_parts(size), strict=True):
            best = np.zeros((len(parts), len(others)), np.float32)
            for middle, coarse in middles:
                close = (parts.reshape(-1, parts.shape[-1]) @ coarse.T).reshape(len(parts), PARTS, len(others)).max(1)
                for row, columns in enumerate(map(np.flatnonzero, close >= least - 1 - 1e-4)):
                    if len(columns):
                        part = (_parts(self.greys[at + row][None])[0] @ middle[columns].T).max(0)
                        best[row, columns] = np.maximum(best[row, columns], part)
            yield np.where(best >= least, best, 0)

    def holds(self, others: "Looks") -> Floats:
        """Return how well the middles of others are found in these looks, (n, m); 0 below `LEAST`."""
        return np.concatenate([np.zeros((0, len(others)), np.float32), *self.found(others)])

    def nearness(self, others: "Looks", least_whole: float = LEAST_WHOLE) -> Floats:
        """Return the correlation of near copies, and 0 for other photos, (n, m)."""
        part = self.holds(others)
        part = np.maximum(part, part.T if others is self else others.holds(self).T)
        of_whole = self.whole @ others.whole.T
        near = (part >= LEAST) | (of_whole >= least_whole)
        return np.where(near & _hues_allow(self.hues, others.hues), np.maximum(part, of_whole), 0)


def copy_sets(looks: Sequence[bytes], least_whole: float = LEAST_WHOLE) -> list[list[int]]:
    """Return the photos that are not near copies of an earlier one, each with its own near copies."""
    every = Looks(looks)
    sets: dict[int, list[int]] = {}
    for place, row in enumerate(every.nearness(every, least_whole).tolist()):
        first = max(sets, key=row.__getitem__, default=place)
        sets.setdefault(first if row[first] and first != place else place, []).append(place)
    return list(sets.values())


def same_photos(one: Looks, other: Looks) -> Iterator[tuple[int, int]]:
    """Yield the pairs that show the same photo or a part of it; among the photos of one `Looks`, in either order."""
    for looks, others in ((one, other), (other, one))[: 1 if one is other else 2]:
        at = 0
        for near in looks.found(others, LEAST_ELSEWHERE):
            rows = slice(at, at + len(near))
            alike = (near > 0) | (looks.whole[rows] @ others.whole.T >= LEAST_SAVED)
            alike &= _hues_allow(looks.hues[rows], others.hues)
            pairs = [(at + row, column) for row, column in np.argwhere(alike).tolist()]
            yield from pairs if looks is one else [(column, row) for row, column in pairs]
            at = rows.stop


def nearest_copies(looks: Looks, others: Looks | None = None) -> list[int | None]:
    """Return the nearest copy of each photo among `others` or, by default, the photos themselves; None without one."""
    nearness = looks.nearness(looks if others is None else others)
    if others is None:
        np.fill_diagonal(nearness, 0)
    return [int(row.argmax()) if row.any() else None for row in nearness]


def _hues_allow(hues: Floats, others: Floats) -> NDArray[np.bool_]:
    """Return whether mean colours (n, 3) and (m, 3), less their greys, have equal hues, or one is nearly grey."""
    length, other_length = (np.linalg.norm(each, axis=1) for each in (hues, others))
    both = (length[:, None] >= COLOURFUL) & (other_length >= COLOURFUL)
    return ~both | (hues @ others.T >= HUES * length[:, None] * other_length)


def _parts(greys: Floats) -> Floats:
    """Return all parts of looks (n, SIDE, SIDE), (n, t, v)."""
    parts = []
    for cells in PART_CELLS:
        across = greys[:, None] @ cells.transpose(0, 2, 1)  # n, count, SIDE, CELLS
        parts.append((cells[:, None] @ across[:, None]).reshape(len(greys), len(cells) ** 2, CELLS**2))
    return _unit(np.concatenate(parts, 1))


def _coarse(parts: Floats, *, is_part: bool = True) -> Floats:
    """Return projections of parts or middles (..., v) on coarse cells, (..., COARSE² + 2).

    The product of that of a part and that of a middle is -1/2 times their squared distance.
    """
    cells = parts @ COARSER
    half, one = -np.square(cells).sum(-1, keepdims=True) / 2, np.ones((*cells.shape[:-1], 1), np.float32)
    return np.concatenate([cells, *((half, one) if is_part else (one, half))], -1)


def _cells(starts: NDArray[np.float64], scale: float) -> Floats:
    """Return the weights of a look's pixels in the cells of parts along one side, (starts, CELLS, SIDE)."""
    edges = SIDE * (starts[:, None] + scale * np.arange(CELLS + 1) / CELLS)
    pixels = np.arange(SIDE)
    shared = np.minimum(edges[:, 1:, None], pixels + 1) - np.maximum(edges[:, :-1, None], pixels)
    return (shared.clip(0) / (SIDE * scale / CELLS)).astype(np.float32)


def _all_cells() -> list[Floats]:
    counts = [2 * round((1 - scale) / STEP / 2) + 1 for scale in SCALES]  # odd, so that one part is central
    starts = [
        np.linspace(0, 1 - scale, n) if n > 1 else np.array([(1 - scale) / 2])
        for scale, n in zip(SCALES, counts, strict=True)
    ]
    return [_cells(each, scale) for each, scale in zip(starts, SCALES, strict=True)]


def _unit(values: Floats) -> Floats:
    """Return values (..., v) with mean 0 and length 1; equal values become 0."""
    values = values - values.mean(-1, keepdims=True)
    return values / np.linalg.norm(values, axis=-1, keepdims=True).clip(1)


PART_CELLS = _all_cells()  # cells of the parts of each scale, (count, CELLS, SIDE)
PARTS = sum(len(cells) ** 2 for cells in PART_CELLS)  # number of parts of a look
