"""Half blocks in few bytes: the colours along each row of cells are chosen by a search (trellis quantisation).

A terminal keeps two colours from cell to cell, and either half of a cell can have either of them for nothing, while a
new colour costs about 17 bytes. So the search minimises squared error plus bytes: at each cell it keeps both colours,
replaces one, or replaces both, and the best few choices go on. All rows are searched at the same time.

Shape letters: r rows, n columns, m candidates, b choices that go on.
"""

import numpy as np
from numpy.typing import NDArray

from frn.images.transforms import Pixels

Floats = NDArray[np.float32]

SPACE = 1.6 * np.array([(0.299, 0.587, 0.114), (-0.135, -0.265, 0.4), (0.4, -0.335, -0.065)], dtype=np.float32)
"""RGB to brightness and two differences of colour, which count less."""
WINDOWS = 1, 3, 6  # numbers of cells for whose darker and brighter half of the pixels a new pair of colours is proposed
BEAM = 3
WEIGHT, POWER = 1.6, 1.2  # squared error that a byte may save: more in photos with much detail, which hides errors
NEW, PAIR, HALVES, BLANK = 17.5, 33, 3, 1
"""Bytes of a new colour, of two, of a half block and of a blank, which shows the background alone."""

KEPT, FRESH = np.arange(2 * BEAM).reshape(BEAM, 2), np.arange(2 * BEAM, 2 * BEAM + 2 * len(WINDOWS))
OPTIONS = [(parent, *KEPT[parent], 0.0) for parent in range(BEAM)]
OPTIONS += [(parent, KEPT[parent, 0], fresh, NEW) for parent in range(BEAM) for fresh in FRESH]
OPTIONS += [(parent, fresh, KEPT[parent, 1], NEW) for parent in range(BEAM) for fresh in FRESH]
OPTIONS += [(0, dark, bright, PAIR) for dark, bright in zip(FRESH[::2], FRESH[1::2], strict=True)]
PARENT, *PLACES = np.array([option[:3] for option in OPTIONS], dtype=np.intp).T
"""For each option, the choice that it continues (the best one for a new pair), and the places of its colours."""
BYTES = np.array([option[3] for option in OPTIONS], dtype=np.float32)


def encode(pixels: Pixels) -> bytes:
    """Return the half blocks of an image (2 * rows, columns, 3), row by row: upper colour, lower colour."""
    return np.concatenate([pixels[0::2], pixels[1::2]], axis=2).tobytes()


def cheapened(pixels: Pixels) -> Pixels:
    """Return an image (2 * rows, columns, 3) that looks alike and takes a third of the bytes."""
    halves = np.stack([pixels[0::2], pixels[1::2]], 2).astype(np.float32) @ SPACE.T  # r, n, 2, 3
    detail = np.abs(np.diff(halves, axis=1)).sum(3).mean() if halves.shape[1] > 1 else 0.0
    scale = 1 / np.float32(WEIGHT * detail**POWER + 1)
    pairs = _searched(halves, scale)
    errors = _errors(pairs[:, :, None], halves[:, :, :, None], scale)  # r, n, half, colour
    one = errors.sum(2)
    is_blank = one.min(2) + BLANK < errors.min(3).sum(2) + HALVES
    nearest = np.where(is_blank[..., None], one.argmin(2)[..., None], errors.argmin(3))
    is_new = (np.diff(pairs, axis=1, prepend=np.inf) != 0).any(3)  # r, n, colour
    runs = is_new.transpose(0, 2, 1).cumsum().reshape(len(pairs), 2, -1).transpose(0, 2, 1)
    run = np.take_along_axis(runs, nearest, 2)
    counts = np.bincount(run.ravel())
    means = np.stack([np.bincount(run.ravel(), of.ravel()) / counts.clip(1) for of in np.moveaxis(halves, 3, 0)], 1)
    colours = means[run] @ np.linalg.inv(SPACE).T
    return colours.round().astype(np.uint8).transpose(0, 2, 1, 3).reshape(pixels.shape)


def _searched(halves: Floats, scale: np.float32) -> Floats:
    """Return the two colours (r, n, 2, 3) that the terminal has at each cell."""
    rows, columns = halves.shape[:2]
    each, candidates = np.arange(rows), _candidates(halves)
    colours = np.full((rows, BEAM, 2, 3), 1e4, dtype=np.float32)  # unlike any: at first, the terminal's are not known
    costs = np.tile(np.array([0] + (BEAM - 1) * [np.inf], dtype=np.float32), (rows, 1))
    steps = []
    for x in range(columns):
        pool = np.concatenate([colours.reshape(rows, -1, 3), candidates[:, x]], 1)
        errors = [_errors(pool, half[:, None], scale) for half in (halves[:, x, 0], halves[:, x, 1])]
        upper, lower, one = (np.minimum(*(some[:, at] for at in PLACES)) for some in (*errors, errors[0] + errors[1]))
        totals = np.minimum(upper + lower + HALVES, one + BLANK) + costs[:, PARENT] + BYTES
        best = totals.argsort(1)[:, :BEAM]
        costs = np.take_along_axis(totals, best, 1)
        colours = pool[each[:, None, None], np.stack([at[best] for at in PLACES], 2)]
        steps.append((PARENT[best], colours))
    pairs, at = np.empty_like(halves), np.zeros(rows, dtype=np.intp)
    for x, (parents, colours) in reversed(list(enumerate(steps))):
        pairs[:, x], at = colours[each, at], parents[each, at]
    return pairs


def _errors(colours: Floats, halves: Floats, scale: np.float32) -> Floats:
    """Return the squared errors of colours (..., 3) at halves of cells (..., 3), in bytes."""
    off = (colours - halves) ** 2
    return (off[..., 0] + off[..., 1] + off[..., 2]) * scale  # three times as fast as a sum over so short an axis


def _candidates(halves: Floats) -> Floats:
    """Return the mean darker and brighter colours (r, n, m, 3) of the cells from each one on."""
    means = []
    for cells in WINDOWS:
        ahead = np.pad(halves, ((0, 0), (0, cells - 1), (0, 0), (0, 0)), mode="edge")
        seen = np.lib.stride_tricks.sliding_window_view(ahead, cells, axis=1)  # r, n, 2, 3, cells
        seen = seen.transpose(0, 1, 4, 2, 3).reshape(*halves.shape[:2], 2 * cells, 3)
        is_bright = seen[..., 0] > seen[..., 0].mean(2, keepdims=True)
        for chosen in (~is_bright, is_bright):
            weights = np.where(chosen.any(2, keepdims=True), chosen, 1).astype(np.float32)
            means.append(np.einsum("rnkc,rnk->rnc", seen, weights) / weights.sum(2)[..., None])
    return np.stack(means, 2)
