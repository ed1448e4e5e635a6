"""Pixels as terminals take them: RGB for Kitty's protocol, Sixel row by row of cells."""

import base64
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images import Pixels
from frn_tui.engine.heat import Box
from frn_tui.modes import FRAME
from frn_tui.sixel import cells_of_piece

BAND = 6
"""Pixels, one below the other, that a character of Sixel stands for."""
EMPTY = 63
"""The character of none of them; each adds its bit."""
RUNS = (64, 16, 5)
"""Lengths of runs that are written as a number and the character."""
PIXELS_OF_A_COLOUR, FEWEST = 300, 64
"""A tile looks the same with fewer colours than a large picture, and is there sooner."""
TOUCHING = 1e-6
"""Shares of a side below which a part reaches it."""
LINE = 2
"""Pixels that the frame is wide."""


def kitty_data(pixels: Pixels) -> str:
    """RGB in zlib's format, in base64. The fastest level: the terminal is near, most often."""
    return base64.b64encode(zlib.compress(pixels.tobytes(), 1)).decode("ascii")


def sixel_rows(pixels: Pixels, rows: int, cell_width: int, colours: int) -> Iterator[list[str]]:
    """A picture (h, w, 3) as so many rows of cells, each in pieces: see `frn_tui.sixel.Rows`."""
    few = max(pixels.shape[0] * pixels.shape[1] // PIXELS_OF_A_COLOUR, FEWEST)
    drawn = Image.fromarray(pixels).quantize(min(colours, few), Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette = np.array(drawn.getpalette() or [], dtype=np.int64).reshape(-1, 3)
    shares = (palette * 100 + 127) // 255
    defined = [f"#{place};2;{red};{green};{blue}" for place, (red, green, blue) in enumerate(shares.tolist())]
    wide = cell_width * cells_of_piece(cell_width)
    for row in np.asarray(drawn).reshape(rows, -1, pixels.shape[1]):
        pieces = [row[:, first : first + wide] for first in range(0, row.shape[1], wide)]
        yield ["".join(defined[c] for c in np.unique(piece).tolist()) + "|" + _bands(piece) for piece in pieces]


def _bands(row: NDArray[np.uint8]) -> str:
    """The bands of a row of cells (height, width) of numbers of colours."""
    height, width = row.shape
    keys = row + 256 * (np.arange(height) // BAND)[:, None]  # each colour of each band
    there = np.bincount(keys.ravel()) > 0
    line_of = np.cumsum(there) - 1
    drawn = np.full((line_of[-1] + 1, width), EMPTY, dtype=np.uint8)
    columns = np.arange(width)
    for y in range(height):
        drawn[line_of[keys[y]], columns] += 1 << y % BAND
    text = drawn.tobytes()
    parts: list[list[bytes]] = [[] for _ in range(-(-height // BAND))]
    for line, key in enumerate(np.flatnonzero(there).tolist()):
        pixels = text[line * width : (line + 1) * width].rstrip(b"?")
        parts[key // 256].append(b"#%d%s" % (key % 256, pixels))
    return _shortened(b"-".join(b"$".join(part) for part in parts)).decode("ascii")


def _shortened(text: bytes) -> bytes:
    """Long runs of nothing as their length: most of a photo's colours are at few places of a band."""
    for length in RUNS:
        text = text.replace(b"?" * length, b"!%d\0" % length)
    return text.replace(b"\0", b"?")


def draw_frame(pixels: Pixels, seen: Box) -> Pixels:
    """The same with a line about a part, given in shares of the sides, at the sides where that is not all."""
    framed = np.array(pixels)
    height, width = framed.shape[:2]
    left, right = (round(share * width) for share in seen[::2])
    top, bottom = (round(share * height) for share in seen[1::2])
    rows, columns = slice(max(top, 0), max(bottom, 0)), slice(max(left, 0), max(right, 0))
    for edge, step, share in ((left, LINE, seen[0]), (right, -LINE, 1 - seen[2])):
        first, last = sorted((edge, edge + step))
        if share > TOUCHING and first >= 0:
            framed[rows, first:last] = FRAME
    for edge, step, share in ((top, LINE, seen[1]), (bottom, -LINE, 1 - seen[3])):
        first, last = sorted((edge, edge + step))
        if share > TOUCHING and first >= 0:
            framed[first:last, columns] = FRAME
    return framed
