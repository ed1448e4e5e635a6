"""Images as styled cells: pure functions."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style

from frn_tui.terminal.modes import CELLS, CHARACTERS
from frn_tui.terminal.pixels import placeholders
from frn_tui.terminal.rendered_picture import CELL, Picture

Cell = tuple[str, Style]
Canvas = list[list[Cell]]


def draw(picture: Picture, text: Style, *, dark: bool) -> Canvas:
    """Return the cells of an image. `text` is the style of ASCII characters; `dark` means bright text on dark."""
    return [draw_row(picture, y, text, dark=dark) for y in range(picture.rows)]


def draw_row(picture: Picture, y: int, text: Style, *, dark: bool) -> list[Cell]:
    """Return a row of cells of an image."""
    if picture.is_pixels:
        return placeholders(picture, y, text)
    length = CELL * picture.columns
    data, characters = picture.cells[y * length : (y + 1) * length], CHARACTERS[picture.mode]
    if picture.mode not in CELLS:
        characters = characters if dark else characters[::-1]
        return [(characters[place], text) for place in data[::CELL]]
    return [
        (characters[data[x]], _two_colors(data[x + 1 : x + 4], data[x + 4 : x + CELL])) for x in range(0, length, CELL)
    ]


@lru_cache(8192)
def _color(rgb: bytes) -> Color:
    """Return `Color.from_rgb` in a third of the time; it dominates the cost of a new image."""
    return Color(f"#{rgb.hex()}", ColorType.TRUECOLOR, triplet=ColorTriplet(*rgb))


@lru_cache(16384)
def _two_colors(ink: bytes, ground: bytes) -> Style:
    return Style.from_color(_color(ink), _color(ground))


def centred(row: list[Cell], width: int, base: Style) -> list[Segment]:
    """Return a row in the middle of a line; one that is too long is cropped until the right image arrives."""
    left = max(width - len(row), 0) // 2
    after = max(width - left - len(row), 0)
    return [Segment(" " * left, base), *segments(row[:width]), Segment(" " * after, base)]


def segments(cells: Sequence[Cell]) -> list[Segment]:
    """Merge cells into as few segments as possible."""
    return [Segment("".join(char for char, _ in run), style) for style, run in groupby(cells, itemgetter(1))]
