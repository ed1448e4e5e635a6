"""Images as styled cells: pure functions."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import isfinite
from operator import itemgetter

from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style

from frn_tui.terminal.modes import CELLS, CHARACTERS, FRAME
from frn_tui.terminal.pixels import placeholders
from frn_tui.terminal.rendered_picture import CELL, Picture

LINES, ASCII_LINES = "▏▕▔▁", "||-_"
"""Characters for a line at the left, right, upper and lower edge of a cell."""
LINE = Color.from_rgb(*FRAME)
ON_PIXELS = Style(color="#ffffff", bgcolor="#000000", bold=True)
Cell = tuple[str, Style]
Canvas = list[list[Cell]]


def draw(picture: Picture, text: Style, *, dark: bool) -> Canvas:
    """Return the cells of an image. `text` is the style of ASCII characters; `dark` means bright text on dark."""
    if picture.is_pixels:
        return placeholders(picture, text)
    data, line = picture.cells, CELL * picture.columns
    characters = CHARACTERS[picture.mode]
    if picture.mode not in CELLS:
        characters = characters if dark else characters[::-1]
        inked = [(characters[place], text) for place in data[::CELL]]
        return [inked[start : start + picture.columns] for start in range(0, len(inked), picture.columns)]
    return [
        [
            (characters[data[x]], _two_colors(data[x + 1 : x + 4], data[x + 4 : x + CELL]))
            for x in range(start, start + line, CELL)
        ]
        for start in range(0, len(data), line)
    ]


@lru_cache(8192)
def _color(rgb: bytes) -> Color:
    """Return `Color.from_rgb` in a third of the time; it dominates the cost of a new image."""
    return Color(f"#{rgb.hex()}", ColorType.TRUECOLOR, triplet=ColorTriplet(*rgb))


@lru_cache(4096)
def _two_colors(ink: bytes, ground: bytes) -> Style:
    return Style.from_color(_color(ink), _color(ground))


def write_frame(canvas: Canvas, picture: Picture) -> None:
    """Draw a thin line around the model's input, unless it is the whole photo.

    Args:
        canvas: cells of the image; modified in place.
        picture: which of its cells show what.
    """
    left, top, right, bottom = picture.seen_cells
    rows, columns = range(max(top, 0), min(bottom, picture.rows)), range(max(left, 0), min(right, picture.columns))
    sides = LINES if picture.mode in CELLS else ASCII_LINES
    edges = [
        (sides[0], [(left, y) for y in rows] if picture.seen[0] > 0 else []),
        (sides[1], [(right - 1, y) for y in rows] if picture.seen[2] < 1 else []),
        (sides[2], [(x, top) for x in columns] if picture.seen[1] > 0 else []),
        (sides[3], [(x, bottom - 1) for x in columns] if picture.seen[3] < 1 else []),
    ]
    line = {place: char for char, places in edges for place in places}
    for (x, y), char in line.items():
        if 0 <= x < picture.columns and 0 <= y < picture.rows:
            canvas[y][x] = char, _framed(canvas[y][x][1], colored=picture.mode in CELLS)


def _framed(style: Style, *, colored: bool) -> Style:
    if not colored or style.color is None or style.bgcolor is None:
        return style
    return _line_on(style.color, style.bgcolor)


@lru_cache(1024)
def _line_on(ink: Color, ground: Color) -> Style:
    return Style.from_color(LINE, Color.from_rgb(*_mean(ink.get_truecolor(), ground.get_truecolor())))


def _mean(ink: ColorTriplet, ground: ColorTriplet) -> tuple[int, int, int]:
    red, green, blue = ((a + b) // 2 for a, b in zip(ink, ground, strict=True))
    return red, green, blue


def decile(value: float, low: float, high: float) -> str:
    """Return the position of a value between two others as a digit; "?" if it is not a number."""
    if not isfinite(value):
        return "?"
    if high <= low:
        return "0"
    return str(min(max(int(10 * (value - low) / (high - low)), 0), 9))


def write_numbers(canvas: Canvas, picture: Picture, grid: Sequence[Sequence[float]]) -> None:
    """Write each value's decile at the centre of its part of the model's input.

    Args:
        canvas: cells of the image; modified in place.
        picture: which of its cells show what.
        grid: values, row by row.
    """
    values = [value for row in grid for value in row if isfinite(value)] or [0.0]
    low, high = min(values), max(values)
    colored = picture.mode in CELLS
    for i, row in enumerate(grid):
        for j, value in enumerate(row):
            if (cell := picture.cell_at((j + 0.5) / len(row), (i + 0.5) / len(grid))) is not None:
                x, y = cell
                style = ON_PIXELS if picture.is_pixels else _contrasting(canvas[y][x][1], colored=colored)
                canvas[y][x] = decile(value, low, high), style


def _contrasting(style: Style, *, colored: bool) -> Style:
    """Return a bold style in black or white on the mean of a cell's colours."""
    ink, ground = style.color and style.color.triplet, style.bgcolor and style.bgcolor.triplet
    if not colored or ink is None or ground is None:
        return style + Style(bold=True, reverse=True)
    red, green, blue = _mean(ink, ground)
    bright = 299 * red + 587 * green + 114 * blue > 128_000
    return Style(color="#000000" if bright else "#ffffff", bgcolor=Color.from_rgb(red, green, blue), bold=True)


def segments(cells: Sequence[Cell]) -> list[Segment]:
    """Merge cells into as few segments as possible."""
    return [Segment("".join(char for char, _ in run), style) for style, run in groupby(cells, itemgetter(1))]
