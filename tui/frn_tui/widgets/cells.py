"""Pictures drawn with characters: pure functions from pixels to styled cells.

A cell of a terminal is about twice as high as wide. Half blocks show 1 x 2 pixels per cell in their true colours,
quadrants 2 x 2 pixels in the best two colours, ASCII one grey pixel. The terminal is never asked what it can do: such
questions cost up to seconds at the start and can eat typed keys.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    if mode == "half":
        return _half_blocks(picture)
    if mode == "quad":
        return _quadrants(picture)
    return _ascii(picture, text, dark=dark)


@lru_cache(8192)
def _color(rgb: bytes) -> Color:
    """As `Color.from_rgb`, in a third of the time: most of a new picture's cost."""
    return Color(f"#{rgb.hex()}", ColorType.TRUECOLOR, triplet=ColorTriplet(*rgb))


@lru_cache(4096)
def _two_colors(ink: bytes, ground: bytes) -> Style:
    return Style.from_color(_color(ink), _color(ground))


def _half_blocks(picture: Rgb) -> Canvas:
    return [
        [("▀", _two_colors(upper[x : x + 3], lower[x : x + 3])) for x in range(0, len(upper), 3)]
        for upper, lower in _row_pairs(picture)
    ]


def _quadrants(picture: Rgb) -> Canvas:
    return [
        [_quadrant(upper[x : x + 6] + lower[x : x + 6]) for x in range(0, len(upper), 6)]
        for upper, lower in _row_pairs(picture)
    ]


def _row_pairs(picture: Rgb) -> Iterator[tuple[bytes, bytes]]:
    line = 3 * picture.width
    for start in range(0, len(picture.data), 2 * line):
        yield picture.data[start : start + line], picture.data[start + line : start + 2 * line]


@lru_cache(4096)
def _quadrant(pixels: bytes) -> Cell:
    """The two-colour cell nearest to four pixels.

    Of n pixels in one colour and 4 - n in the other, both the means, the squared error is least where the means lie
    farthest apart: for the split {i} that is |q_i|^2, for {i, j} it is 3/4 |q_i + q_j|^2, in units of a twelfth, with
    q_i = 4 p_i - sum p.
    """
    r0, g0, b0, r1, g1, b1, r2, g2, b2, r3, g3, b3 = pixels
    red, green, blue = r0 + r1 + r2 + r3, g0 + g1 + g2 + g3, b0 + b1 + b2 + b3
    x0, y0, z0 = 4 * r0 - red, 4 * g0 - green, 4 * b0 - blue
    x1, y1, z1 = 4 * r1 - red, 4 * g1 - green, 4 * b1 - blue
    x2, y2, z2 = 4 * r2 - red, 4 * g2 - green, 4 * b2 - blue
    x3, y3, z3 = 4 * r3 - red, 4 * g3 - green, 4 * b3 - blue
    gains = (
        x0 * x0 + y0 * y0 + z0 * z0,
        x1 * x1 + y1 * y1 + z1 * z1,
        x2 * x2 + y2 * y2 + z2 * z2,
        x3 * x3 + y3 * y3 + z3 * z3,
        0.75 * ((x0 + x1) ** 2 + (y0 + y1) ** 2 + (z0 + z1) ** 2),
        0.75 * ((x0 + x2) ** 2 + (y0 + y2) ** 2 + (z0 + z2) ** 2),
        0.75 * ((x0 + x3) ** 2 + (y0 + y3) ** 2 + (z0 + z3) ** 2),
    )
    best = gains.index(max(gains))
    if best < 4:
        mask, start = 1 << best, 3 * best
        ink = pixels[start : start + 3]
        ground = bytes(((red - ink[0]) // 3, (green - ink[1]) // 3, (blue - ink[2]) // 3))
    else:
        mask, start = (3, 5, 9)[best - 4], 3 * (best - 3)
        r, g, b = r0 + pixels[start], g0 + pixels[start + 1], b0 + pixels[start + 2]
        ink = bytes((r // 2, g // 2, b // 2))
        ground = bytes(((red - r) // 2, (green - g) // 2, (blue - b) // 2))
    return QUADRANTS[mask], _two_colors(ink, ground)


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
    """Put each value's decile at the centre of its part of the picture.

    Args:
        canvas: of the picture; changed.
        grid: values, row by row.
        low: lower end of the digit 0.
        high: upper end of the digit 9.
        colored: whether the cells show the picture by their colours; otherwise digits are told by being reversed.
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
