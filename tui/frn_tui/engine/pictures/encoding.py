"""Pixels in terminal formats: RGB for the Kitty protocol, Sixel by rows of cells; frames and palettes."""

import base64
import itertools
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from frn.images.transforms import Pixels
from frn_tui.terminal.modes import FRAME, Palette
from frn_tui.terminal.rendered_picture import Box
from frn_tui.terminal.sixel import cells_of_piece

BAND = 6  # pixels in a column that one Sixel character stands for
LEAD, GAP, SHORTEST_RUN = 5, 5, 4
"""Bytes of a separator with a colour, like `$#255`, and of a gap, like `!959?`; minimum length of a shorter run."""
AT_ONCE = 1 << 15  # number of pixels written at once, chosen to keep the data in the processor's cache
PIXELS_OF_A_COLOUR, FEWEST = 300, 64
"""Pixels per colour and minimum number of colours: a tile needs fewer than a large image and is then faster."""
LINE = 2  # width of the frame in pixels; half blocks show its corners


def kitty_data(pixels: Pixels) -> str:
    """Return RGB compressed by zlib, in base64, at the fastest level because terminals are usually local."""
    return base64.b64encode(zlib.compress(pixels.tobytes(), 1)).decode("ascii")


def sixel_rows(pixels: Pixels, rows: int, cell_width: int, colours: int) -> Iterator[list[str]]:
    """Yield an image (h, w, 3) as rows of cells, each in pieces; see `frn_tui.terminal.sixel.Rows`."""
    height, width = pixels.shape[:2]
    few = max(height * width // PIXELS_OF_A_COLOUR, FEWEST)
    rendered = Image.fromarray(pixels).quantize(min(colours, few), Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette = np.array(rendered.getpalette() or [], dtype=np.int64).reshape(-1, 3)
    shares = np.rint(palette / 2.55)
    defined = [b"#%d;2;%d;%d;%d" % (place, *share) for place, share in enumerate(shares.tolist())]
    high, wide = height // rows, cell_width * cells_of_piece(cell_width)
    at_once = max(AT_ONCE // (high * min(wide, width)), 1)  # rows of cells
    numbers = np.asarray(rendered)
    for top in range(0, height, at_once * high):
        part = numbers[top : top + at_once * high]
        pieces = [_rendered(part[:, first : first + wide], high, defined) for first in range(0, width, wide)]
        yield from map(list, zip(*pieces, strict=True))


def _rendered(numbers: NDArray[np.uint8], high: int, defined: Sequence[bytes]) -> list[str]:
    """Return rows of cells, `high` pixels each, of colour numbers (height, width).

    For each column of a band in which a colour occurs, a few bytes are written: the separator and colour, the gap
    before it, and the character. Each has a fixed position; padding zeros are removed at the end.
    """
    height, width = numbers.shape
    bands = -(-high // BAND)
    y = np.arange(height)
    band, bit = y // high * bands + y % high // BAND, y % high % BAND
    keys = band[:, None] * len(defined) + numbers  # one entry per colour and band
    used = np.zeros((height // high * bands, len(defined)), dtype=bool)
    used.reshape(-1)[keys] = True
    places = (np.cumsum(used) - 1)[keys] * width + np.arange(width)
    rendered = np.zeros(np.count_nonzero(used) * width, dtype=np.uint8)
    for place in range(BAND):
        rendered[places[bit == place]] |= 1 << place  # positions are unique: one pixel per column and line
    there = np.flatnonzero(rendered.view(bool))
    lines, columns = np.divmod(there, width)
    begins = np.diff(lines, prepend=-1) > 0
    before = np.where(begins, 0, np.roll(columns, 1) + 1)
    text = np.zeros((len(there), LEAD + GAP + 1), dtype=np.uint8)
    of_band, of_colour = np.nonzero(used)
    text[begins, :LEAD] = _leads(of_band, of_colour, bands)
    text[:, LEAD:-1] = _gaps(width).take(columns - before, axis=0)
    text[:, -1] = rendered[there] + 63  # Sixel character without any pixel; each pixel adds its bit
    of_rows = np.any(used.reshape(-1, bands, len(defined)), axis=1)
    written = text.tobytes().translate(None, b"\0").split(b"\n")[1:]
    return [
        (b"".join(compress(defined, of_row)) + b"|" + row).decode("ascii")
        for row, of_row in zip(written, of_rows.tolist(), strict=True)
    ]


def _leads(band: NDArray[np.int64], colour: NDArray[np.int64], bands: int) -> NDArray[np.uint8]:
    """Return the prefix (n, LEAD) of each colour of each band; the first in a row of cells starts a line."""
    text = np.empty((len(band), LEAD), dtype=np.uint8)
    new_band, new_row = np.diff(band, prepend=-1) > 0, np.diff(band // bands, prepend=-1) > 0
    text[:, 0] = np.where(new_row, ord("\n"), np.where(new_band, ord("-"), ord("$")))
    text[:, 1:] = _as_bytes([b"#%d" % number for number in range(256)], LEAD - 1)[colour]
    return text


@cache
def _gaps(width: int) -> NDArray[np.uint8]:
    """Return gaps by length; longer ones are written as the number and the character."""
    return _as_bytes([b"?" * n if n < SHORTEST_RUN else b"!%d?" % n for n in range(width)], GAP)


def _as_bytes(texts: Sequence[bytes], wide: int) -> NDArray[np.uint8]:
    """Return texts as rows of bytes (n, wide), padded with zeros."""
    return np.array(texts, dtype=f"S{wide}").view(np.uint8).reshape(-1, wide)


def draw_frame(pixels: Pixels, seen: Box, line: int) -> Pixels:
    """Return the pixels with a line around a part, given in fractions of the sides, where it does not reach them."""
    image = Image.fromarray(pixels)
    edges = [round(share * side) for share, side in zip(seen, image.size * 2, strict=True)]
    for number, inside in enumerate((seen[0], seen[1], 1 - seen[2], 1 - seen[3])):
        if inside <= 1e-6:  # fraction of a side within which a part counts as reaching it
            edges[number] += -line if number < 2 else line
    left, top, right, bottom = edges
    ImageDraw.Draw(image).rectangle((left, top, right - 1, bottom - 1), outline=FRAME, width=line)
    framed = np.array(image)
    if line == 1:  # half blocks would make thick bars, so only the corners are drawn
        corner = max(min(right - left, bottom - top) // 8, 1)
        rows = slice(max(top + corner, 0), max(bottom - corner, 0))
        columns = slice(max(left + corner, 0), max(right - corner, 0))
        framed[rows], framed[:, columns] = pixels[rows], pixels[:, columns]
    return framed


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
