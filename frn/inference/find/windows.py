"""Windows of a feature map: their errors and margins, and the parts of the photo that they are.

Shape letters: H x W cells of a map, h x w cells of a window, d channels, way classes.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from frn.features.feature_cache import Maps
from frn.images.boxes import Box
from frn.images.transforms import Pixels
from frn.ridge.enrolment import Array, ClassScorer

SHARED = 0.15
"""Largest part of a subject that may lie within another."""
Fractions = tuple[float, float, float, float]
"""Left and top edge, width and height of a part of a photo, as fractions of the photo's width and height."""
WHOLE: Fractions = (0.0, 0.0, 1.0, 1.0)


def window_means(values: NDArray[np.floating], grid: tuple[int, int]) -> Array:
    """Return the means of all windows of h x w cells: (H, W, way) to (H - h + 1, W - w + 1, way)."""
    h, w = grid
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1, values.shape[2]))
    np.cumsum(np.cumsum(values, 0, dtype=np.float64), 1, out=sums[1:, 1:])
    return (sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]) / (h * w)


def location_errors(maps: Maps, scorer: ClassScorer) -> tuple[Array, Array]:
    """Return the errors (..., way) of the locations of maps (..., d), and squared lengths (..., 1).

    One product over all of them takes a quarter of the time of one for each row.
    """
    lengths = np.vecdot(maps, maps, dtype=np.float64)[..., None]
    errors = scorer.location_error(maps.reshape(1, -1, maps.shape[-1])).reshape(*maps.shape[:-1], -1)
    return errors.astype(np.float64), lengths


def margins(
    errors: Array, energies: Array, own: int | NDArray[np.intp] | None = None
) -> tuple[Array, NDArray[np.intp]]:
    """Return the margins (...) of errors (..., way) and the best class of each, or those of the class `own`, (...).

    A single class has its energies (...) as the error of the others.
    """
    best = errors.argmin(-1) if own is None else np.broadcast_to(own, errors.shape[:-1])
    least = np.take_along_axis(errors, best[..., None], -1)[..., 0]
    way = errors.shape[-1]
    others = (errors.sum(-1) - least) / (way - 1) if way > 1 else energies
    return others - least, best


def distinct(boxes: Iterable[Box], most: int) -> list[Box]:
    """Return up to `most` boxes in order, without those that are largely within an earlier one, or contain it."""
    kept: list[Box] = []
    for box in boxes:
        if len(kept) == most:
            break
        if all(_shared(box, other) < SHARED for other in kept):
            kept.append(box)
    return kept


def _shared(one: Box, other: Box) -> float:
    """Return the fraction of the smaller box that lies within the other."""
    across = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
    down = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
    return max(across, 0) * max(down, 0) / min(one.width * one.height, other.width * other.height)


def cut(pixels: Pixels, part: Fractions) -> Pixels:
    """Return a part of an image (height, width, 3)."""
    left, top, width, height = pixel_box(part, (pixels.shape[1], pixels.shape[0]))
    return pixels[top : top + height, left : left + width]


def pixel_box(box: Fractions, size: tuple[int, int]) -> Box:
    """Return a box in pixels of a photo of this (width, height), from fractions."""
    left, top = int(box[0] * size[0]), int(box[1] * size[1])
    return Box(left, top, max(1, round(box[2] * size[0])), max(1, round(box[3] * size[1])))
