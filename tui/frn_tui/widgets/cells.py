"""Pictures drawn with characters: pure functions from pixels to styled cells.

A cell of a terminal is about twice as high as wide. Half blocks show 1 x 2 pixels per cell in their true colours,
quadrants 2 x 2 pixels in the best two colours, ASCII one grey pixel. The terminal is never asked what it can do: such
questions cost up to seconds at the start and can eat typed keys.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from math import isfinite
from operator import itemgetter
from typing import Literal

from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style

from frn_tui.rgb import Rgb

Mode = Literal["half", "quad", "ascii", "none"]
MODES: tuple[Mode, ...] = ("half", "quad", "ascii", "none")
Cell = tuple[str, Style]
Canvas = list[list[Cell]]

PIXELS: dict[Mode, tuple[int, int]] = {"half": (1, 2), "quad": (2, 2), "ascii": (1, 1), "none": (0, 0)}
"""Pixels per cell, across and down."""
QUADRANTS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""By the sum of 1 (upper left), 2 (upper right), 4 (lower left) and 8 (lower right)."""
SPLITS = ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (0, 3))
"""Pixels of the ink: all the ways to part four."""
RAMP = " .:-=+*#%@"


def default_mode(environ: Mapping[str, str], color_system: str | None) -> Mode:
    """How to draw pictures on this terminal, from what it says of itself."""
    if "NO_COLOR" in environ or environ.get("TERM") in ("dumb", "unknown"):
        return "ascii"
    return "half" if color_system in ("truecolor", "256") else "ascii"


def square(columns: int, rows: int) -> tuple[int, int]:
    """The largest area of cells that looks square."""
    side = min(columns, 2 * rows) // 2 * 2
    return side, side // 2


def draw(picture: Rgb, columns: int, rows: int, mode: Mode, text: Style, *, dark: bool) -> Canvas:
    """Fill an area with a picture. `text` is the style of ASCII characters; `dark`: text is bright on dark."""
    across, down = PIXELS[mode]
    if mode == "none":
        return [[(" ", text)] * columns for _ in range(rows)]
    picture = picture.resized(columns * across, rows * down)
    if mode == "ascii":
        return _ascii(picture, text, dark=dark)
    data, line, step = picture.data, 3 * picture.width, 3 * across
    pairs = [(data[y : y + line], data[y + line : y + 2 * line]) for y in range(0, len(data), 2 * line)]
    cell = _half_block if mode == "half" else _quadrant
    return [[cell(upper[x : x + step], lower[x : x + step]) for x in range(0, line, step)] for upper, lower in pairs]


@lru_cache(8192)
def _color(rgb: bytes) -> Color:
    """As `Color.from_rgb`, in a third of the time: most of a new picture's cost."""
    return Color(f"#{rgb.hex()}", ColorType.TRUECOLOR, triplet=ColorTriplet(*rgb))


@lru_cache(4096)
def _half_block(upper: bytes, lower: bytes) -> Cell:
    return "▀", Style.from_color(_color(upper), _color(lower))


@lru_cache(4096)
def _quadrant(upper: bytes, lower: bytes) -> Cell:
    """The two-colour cell nearest to four pixels.

    Of n pixels in one colour and 4 - n in the other, both the means, the squared error is least where the means lie
    farthest apart: for the split {i} that is |q_i|^2, for {i, j} it is 3/4 |q_i + q_j|^2, in units of a twelfth, with
    q_i = 4 p_i - sum p.
    """
    pixels = upper + lower
    channels = pixels[::3], pixels[1::3], pixels[2::3]
    totals = red, green, blue = [sum(channel) for channel in channels]
    q = [(4 * r - red, 4 * g - green, 4 * b - blue) for r, g, b in zip(*channels, strict=True)]
    x0, y0, z0 = q[0]
    gains: list[float] = [x * x + y * y + z * z for x, y, z in q]
    gains += [0.75 * ((x0 + x) ** 2 + (y0 + y) ** 2 + (z0 + z) ** 2) for x, y, z in q[1:]]
    members = SPLITS[gains.index(max(gains))]
    n, sums = len(members), [sum([channel[i] for i in members]) for channel in channels]
    ink = bytes([part // n for part in sums])
    ground = bytes([(total - part) // (4 - n) for total, part in zip(totals, sums, strict=True)])
    return QUADRANTS[sum([1 << i for i in members])], Style.from_color(_color(ink), _color(ground))


def _ascii(picture: Rgb, text: Style, *, dark: bool) -> Canvas:
    data, width = picture.data, picture.width
    greys = [299 * r + 587 * g + 114 * b for r, g, b in zip(data[::3], data[1::3], data[2::3], strict=True)]
    ramp = RAMP if dark else RAMP[::-1]
    low = min(greys)
    step = (max(greys) - low) / len(ramp) or 1.0
    last = len(ramp) - 1
    cells = [(ramp[min(int((grey - low) / step), last)], text) for grey in greys]
    return [cells[start : start + width] for start in range(0, len(cells), width)]


def decile(value: float, low: float, high: float) -> str:
    """Where a value lies between two others, as a digit; "?" where it is no number."""
    if not isfinite(value):
        return "?"
    if high <= low:
        return "0"
    return str(min(max(int(10 * (value - low) / (high - low)), 0), 9))


def write_numbers(canvas: Canvas, grid: Sequence[Sequence[float]], low: float, high: float, *, colored: bool) -> None:
    """Put each value's decile between `low` and `high` at the centre of its part of the picture, in place.

    `colored` cells show the picture by their colours; on others digits are told by being reversed.
    """
    rows, columns = len(canvas), len(canvas[0])
    for i, values in enumerate(grid):
        y = (2 * i + 1) * rows // (2 * len(grid))
        for j, value in enumerate(values):
            x = (2 * j + 1) * columns // (2 * len(values))
            canvas[y][x] = decile(value, low, high), _contrasting(canvas[y][x][1], colored=colored)


def _contrasting(style: Style, *, colored: bool) -> Style:
    """Bold, and black or white on the mean of the colours that a cell shows."""
    ink, ground = style.color and style.color.triplet, style.bgcolor and style.bgcolor.triplet
    if not colored or ink is None or ground is None:
        return style + Style(bold=True, reverse=True)
    red, green, blue = ((a + b) // 2 for a, b in zip(ink, ground, strict=True))
    bright = 299 * red + 587 * green + 114 * blue > 128_000
    return Style(color="#000000" if bright else "#ffffff", bgcolor=Color.from_rgb(red, green, blue), bold=True)


def segments(cells: Sequence[Cell]) -> list[Segment]:
    """Cells as few segments."""
    return [Segment("".join(char for char, _ in run), style) for style, run in groupby(cells, itemgetter(1))]
