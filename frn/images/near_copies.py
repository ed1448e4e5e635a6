"""Near copies: photos saved again, resized, cropped, framed, mirrored, turned a little, or with other colours.

A photo's look is a small grey image and its mean colour. Two photos are near copies if their looks correlate, or if the
middle of one look correlates with one of many parts of the other, or of its mirror image. Correlation does not depend
on brightness and contrast. Feature maps tell crops of a photo from other photos of its class less well, because they
are trained to be alike within a class.

Shape letters: n photos, m others, t parts, v values of a part.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.transforms import Pixels

SIDE, CELLS = 32, 12
"""Pixels along the side of a look and of a part."""
BYTES = SIDE * SIDE + 3
"""Length of a look."""
MIDDLE = 0.8
"""Share of a look's width that is searched in other looks."""
SCALES, STEP = (0.64, 0.68, 0.72, 0.76, 0.8, 0.85, 0.9, 0.95, 1.0), 0.07
"""Sizes of the parts and the distance between them, as shares of a look's width: crops of a fifth are still found."""
LEAST, LEAST_WHOLE, LEAST_SAVED = 0.97, 0.9, 0.97
"""Smallest correlations of near copies, of a part and of whole looks; and of whole looks of the same photo.

Different photos of one object before one background, such as coins, correlate up to 0.95; the same photo saved again,
or with half or twice the side, at least 0.98.
"""
COLOURFUL, HUES = 25, 0.3
"""Distance of a colour from grey from which hues are compared, and the smallest cosine of equal hues."""
BLOCK, KEPT = 64, 2000
"""Photos that are compared at once, and the number of photos up to which their parts (88 KB each) are kept."""

Floats = NDArray[np.float32]
_EDGES = np.arange(SIDE)[:, None] + (-1, 0, 1)
BLUR = 0.25 * (np.arange(SIDE) == _EDGES.clip(0, SIDE - 1)[..., None]).sum(1, dtype=np.float32)
BLUR += 0.25 * np.eye(SIDE, dtype=np.float32)
"""Weights (1/4, 1/2, 1/4) of neighbouring pixels, (SIDE, SIDE)."""


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
        self.middles = [_unit((middle @ each @ middle.T).reshape(len(looks), CELLS**2)) for each in self._both_ways()]
        """Middles of the looks and of their mirror images, (n, v) each."""
        self._parts: list[Floats] = []

    def _both_ways(self) -> tuple[Floats, Floats]:
        return self.greys, self.greys[:, :, ::-1]

    def __len__(self) -> int:
        return len(self.greys)

    def parts(self) -> Iterator[Floats]:
        """Yield the parts of the looks, (n, t, v), a block of photos at a time."""
        if self._parts or not len(self):
            yield from self._parts
            return
        for first in range(0, len(self), BLOCK):
            block = _parts(self.greys[first : first + BLOCK])
            if len(self) <= KEPT:
                self._parts.append(block)
            yield block

    def holds(self, others: "Looks") -> Floats:
        """Return how well the middles of others are found in these looks, (n, m)."""
        shares = [np.zeros((0, len(others)), np.float32)]
        for parts in self.parts():
            rows = parts.reshape(-1, parts.shape[-1])
            best = np.maximum(*((rows @ middle.T).reshape(*parts.shape[:2], -1).max(1) for middle in others.middles))
            shares.append(best)
        return np.concatenate(shares)

    def nearness(self, others: "Looks", least_whole: float = LEAST_WHOLE) -> Floats:
        """Return the correlation of near copies, and 0 for other photos, (n, m)."""
        part = self.holds(others)
        part = np.maximum(part, part.T if others is self else others.holds(self).T)
        whole = self.whole @ others.whole.T
        near = (part >= LEAST) | (whole >= least_whole)
        return np.where(near & _hues_allow(self.hues, others.hues), np.maximum(part, whole), 0)


def copy_sets(looks: Sequence[bytes], least_whole: float = LEAST_WHOLE) -> list[list[int]]:
    """Return the photos that are not near copies of an earlier one, each with its own near copies."""
    every = Looks(looks)
    sets: dict[int, list[int]] = {}
    for place, row in enumerate(every.nearness(every, least_whole).tolist()):
        first = max(sets, key=row.__getitem__, default=place)
        sets.setdefault(first if row[first] and first != place else place, []).append(place)
    return list(sets.values())


def saved_again(looks: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the pairs of photos that were saved again, resized to half or more, or got other colours."""
    every, pairs = Looks(looks), []
    # Unit vectors that correlate are close, and so are their projections on the means of 8 x 8 cells.
    cells = 4 * every.whole.reshape(-1, 8, 4, 8, 4).mean((2, 4)).reshape(-1, 64)
    lengths = np.square(cells).sum(1)
    for first in range(0, len(looks), BLOCK):
        rows = slice(first, first + BLOCK)
        products = cells[rows] @ cells.T - (lengths[rows, None] + lengths) / 2
        close = np.flatnonzero((products >= LEAST_SAVED - 1 - 1e-4).any(0))
        alike = _hues_allow(every.hues[rows], every.hues[close])
        alike &= every.whole[rows] @ every.whole[close].T >= LEAST_SAVED
        found = [(first + row, int(close[column])) for row, column in np.argwhere(alike).tolist()]
        pairs += [(one, other) for one, other in found if one < other]
    return pairs


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
    for scale in SCALES:
        count = 2 * round((1 - scale) / STEP / 2) + 1  # odd, so that one part is central
        cells = _cells(np.linspace(0, 1 - scale, count) if count > 1 else np.array([(1 - scale) / 2]), scale)
        across = greys[:, None] @ cells.transpose(0, 2, 1)  # n, count, SIDE, CELLS
        parts.append((cells[:, None] @ across[:, None]).reshape(len(greys), count**2, -1))
    return _unit(np.concatenate(parts, 1))


def _cells(starts: NDArray[np.float64], scale: float) -> Floats:
    """Return the weights of a look's pixels in the cells of parts along one side, (starts, CELLS, SIDE)."""
    edges = SIDE * (starts[:, None] + scale * np.arange(CELLS + 1) / CELLS)
    pixels = np.arange(SIDE)
    shared = np.minimum(edges[:, 1:, None], pixels + 1) - np.maximum(edges[:, :-1, None], pixels)
    return (shared.clip(0) / (SIDE * scale / CELLS)).astype(np.float32)


def _unit(values: Floats) -> Floats:
    """Return values (..., v) with mean 0 and length 1; equal values become 0."""
    values = values - values.mean(-1, keepdims=True)
    return values / np.linalg.norm(values, axis=-1, keepdims=True).clip(1)
