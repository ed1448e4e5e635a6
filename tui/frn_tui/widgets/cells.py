"""Images as styled cells: pure functions."""

from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Offset, Size

from frn_tui.terminal.modes import HALF_BLOCK
from frn_tui.terminal.pixels import placeholders
from frn_tui.terminal.rendered_picture import CELL, Picture


def picture_line(picture: Picture, y: int, room: Size, base: Style) -> list[Segment]:
    """Return a line of an image in the middle of some room; a larger one is cropped until the right one arrives."""
    margin = margins(picture, room)
    row = y - margin.y
    cells = _row(picture, row, base)[: room.width] if 0 <= row < picture.rows else []
    joined = [Segment("".join(char for char, _ in run), style) for style, run in groupby(cells, itemgetter(1))]
    return [Segment(" " * margin.x, base), *joined, Segment(" " * (room.width - margin.x - len(cells)), base)]


def margins(picture: Picture, room: Size) -> Offset:
    """Return the empty columns and rows before an image in the middle of some room."""
    return Offset(max(room.width - picture.columns, 0) // 2, max(room.height - picture.rows, 0) // 2)


def _row(picture: Picture, row: int, base: Style) -> list[tuple[str, Style]]:
    if picture.is_pixels:
        return placeholders(picture, row, base)
    length = CELL * picture.columns
    data = picture.cells[row * length : (row + 1) * length]
    return [(HALF_BLOCK, _two_colors(data[x : x + CELL])) for x in range(0, length, CELL)]


@lru_cache(16384)
def _two_colors(cell: bytes) -> Style:
    return Style.from_color(_color(cell[:3]), _color(cell[3:]))


@lru_cache(8192)
def _color(rgb: bytes) -> Color:
    """Return `Color.from_rgb` in a third of the time; it dominates the cost of a new image."""
    return Color(f"#{rgb.hex()}", ColorType.TRUECOLOR, triplet=ColorTriplet(*rgb))
