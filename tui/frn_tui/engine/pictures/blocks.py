"""Conversion of pixels to characters in two colours."""

import itertools
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.transforms import Pixels
from frn_tui.terminal.modes import CHARACTERS, PARTS, Mode, Palette

CHUNK = 1024
"""Number of cells processed together."""
UNSEEN = 4
"""Difference between two colours, per channel, that is not visible between neighbouring cells."""


def encode(pixels: Pixels, mode: Mode) -> bytes:
    """Return the cells of an image (rows * down, columns * across, 3), row by row.

    Each takes seven bytes: index of the character in `CHARACTERS`, foreground colour, background colour.
    """
    across, down = PARTS[mode]
    rows, columns = pixels.shape[0] // down, pixels.shape[1] // across
    parts = pixels.reshape(rows, down, columns, across, 3).transpose(0, 2, 1, 3, 4).reshape(rows * columns, -1, 3)
    if mode == "half":
        places, ink, ground = np.ones(len(parts), np.int64), parts[:, 0], parts[:, 1]
    elif mode == "ascii":
        places, ink, ground = _ink(parts[:, 0]), parts[:, 0], parts[:, 0]
    else:
        found = [_two_colours(parts[first : first + CHUNK]) for first in range(0, len(parts), CHUNK)]
        places, ink, ground = (np.concatenate(some) for some in zip(*found, strict=True))
    if mode != "ascii":
        ink, ground = (_held(colours.reshape(rows, columns, 3)) for colours in (ink, ground))
    return np.concatenate([places[:, None], ink, ground], axis=1).astype(np.uint8).tobytes()


def _held(colours: NDArray[Any]) -> NDArray[Any]:
    """Return colours (rows, columns, 3) as (cells, 3), each kept along a row while it hardly changes: fewer bytes."""
    held = colours.astype(np.int16)
    for x in range(1, held.shape[1]):
        same = (abs(held[:, x] - held[:, x - 1]) <= UNSEEN).all(1)
        held[same, x] = held[same, x - 1]
    return held.reshape(-1, 3)


def dithered(pixels: Pixels, palette: Palette) -> Pixels:
    """Return the same in the colours of a palette; the rounding errors are spread over neighbours (dithering)."""
    image = Image.fromarray(pixels)
    if palette == "greys":
        image = image.convert("L").convert("RGB")
    limited = image.quantize(palette=_palette(palette), dither=Image.Dither.FLOYDSTEINBERG)
    return np.asarray(limited.convert("RGB"))


@cache
def _palette(palette: Palette) -> Image.Image:
    if palette == "greys":
        colours = [(level,) * 3 for level in (0, 128, 192, 255)]
    else:
        cube = (0, 95, 135, 175, 215, 255)
        colours = [*itertools.product(cube, cube, cube), *((level,) * 3 for level in range(8, 248, 10))]
    image = Image.new("P", (1, 1))
    image.putpalette(list(itertools.chain(*colours)))
    return image


def _two_colours(parts: Pixels) -> tuple[NDArray[np.int64], Pixels, Pixels]:
    """Return the best split of each cell's n pixels into two mean colours, from pixels (cells, n, 3).

    The squared error is least if the means are farthest apart. With q the pixels minus their mean, a of them foreground
    and s the sum of their q, this maximises |s|^2 (1 / a + 1 / (n - a)). Foreground and background are interchangeable,
    so the last pixel is background.
    """
    n = parts.shape[1]
    splits = (np.arange(1, 2 ** (n - 1))[:, None] >> np.arange(n) & 1).astype(np.float32)
    inked = splits.sum(1)
    deviation = parts - parts.mean(1, keepdims=True, dtype=np.float32)
    sums = splits @ deviation  # cells, splits, 3
    best = ((sums * sums).sum(2) * (1 / inked + 1 / (n - inked))).argmax(1)
    chosen = splits[best][..., None]  # cells, n, 1
    ink = (chosen * parts).sum(1) / chosen.sum(1)
    ground = ((1 - chosen) * parts).sum(1) / (n - chosen.sum(1))
    return best + 1, ink.round(), ground.round()


def _ink(pixels: Pixels) -> NDArray[np.int64]:
    """Return the density of characters over the full range from the darkest to the lightest pixel."""
    grey = pixels @ np.array([0.299, 0.587, 0.114])
    low, high, steps = grey.min(), grey.max(), len(CHARACTERS["ascii"])
    share = (grey - low) / (high - low) if high > low else np.zeros(len(grey))
    return np.minimum((steps * share).astype(np.int64), steps - 1)
