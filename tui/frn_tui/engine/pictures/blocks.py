"""Conversion of pixels to half blocks."""

import itertools
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.transforms import Pixels
from frn_tui.terminal.modes import Palette

UNSEEN = 4
"""Difference between two colours, per channel, that is not visible between neighbouring cells."""


def encode(pixels: Pixels) -> bytes:
    """Return the half blocks of an image (2 * rows, columns, 3), row by row: upper colour, lower colour."""
    return np.concatenate([_held(pixels[0::2]), _held(pixels[1::2])], axis=1).astype(np.uint8).tobytes()


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
