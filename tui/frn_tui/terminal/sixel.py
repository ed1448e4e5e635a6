"""Sixel in the place of placeholders.

Whatever Textual writes of a picture, a line of it or a part of one beside a message, is a run of placeholders
(`frn_tui.terminal.pixels`) in one row of the picture. The run is written as blanks with the pixels of just these cells
over them: what lies about it stays, and what is written there later takes the place of the pixels, as with any text.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from frn_tui.terminal.marks import PLACEHOLDER, PLACES

BEGIN, END = '\x1bP0;1q"1;1;', "\x1b\\"
"""Pixels that are not named stay as they are, and are square."""
WIDEST = 960
"""Pixels of a piece."""
_RUN = re.compile(f"\x1b\\[([0-9;]*)m((?:{PLACEHOLDER}...)+)")
_COLOUR = re.compile(r"(?:^|;)38;5;(\d+)")
_REPEATED = re.compile("!([0-9]+)(.)")


class Rows(NamedTuple):
    """A picture's Sixel: each row of cells by itself."""

    cell: tuple[int, int]
    """Width and height of a cell in pixels."""
    rows: tuple[tuple[str, ...], ...]
    """Pieces of so many cells as `cells_of_piece` says, from left to right.

    Each: the colours' definitions, `|`, and bands of six pixels with `-` between, their colours with `$` between.
    """
    columns: int


def cells_of_piece(cell_width: int) -> int:
    """How many cells are drawn at once: an xterm takes no picture of more than 1,000 pixels a side, unless told to."""
    return max(WIDEST // cell_width, 1)


def translated(text: str, rows_of: Callable[[int, str], Rows | None]) -> str:
    """A text for the terminal.

    Args:
        text: with placeholders, each with three marks.
        rows_of: the picture by a colour and a third mark; None if it is gone.
    """

    def replaced(match: re.Match[str]) -> str:
        codes, run = match.groups()
        colour = _COLOUR.search(codes)
        picture = rows_of(int(colour[1]), run[3]) if colour else None
        cells = len(run) // 4
        blanks = f"\x1b[{codes}m" + " " * cells
        if picture is None:
            return blanks
        first, row = PLACES[run[2]], PLACES[run[1]]
        if row >= len(picture.rows):
            return blanks
        (width, height), rendered = picture.cell, ""
        size = cells_of_piece(width)
        for number, piece in enumerate(picture.rows[row]):
            start, stop = number * size, min((number + 1) * size, picture.columns)
            left, right = max(first, start), min(first + cells, stop)
            if left < right:
                part = (
                    _part(piece, (left - start) * width, (right - start) * width)
                    if right - left < stop - start
                    else piece
                )
                rendered += f"\x1b8{_ahead(left - first)}{_rendered(part, (right - left) * width, height)}"
        return f"\x1b7{blanks}{rendered}\x1b8{_ahead(cells)}"

    return _RUN.sub(replaced, text)


def _ahead(cells: int) -> str:
    return f"\x1b[{cells}C" if cells else ""


def _rendered(piece: str, width: int, height: int) -> str:
    colours, _, bands = piece.partition("|")
    return f"{BEGIN}{width};{height}{colours}{bands}{END}"


@lru_cache(256)
def _part(piece: str, first: int, last: int) -> str:
    """The columns of pixels from one up to another, of a piece."""
    colours, _, bands = piece.partition("|")
    return f"{colours}|{cut(bands, first, last)}"


def cut(bands: str, first: int, last: int) -> str:
    """The columns of pixels from one up to another."""
    return "-".join("$".join(_cut_colour(part, first, last) for part in band.split("$")) for band in bands.split("-"))


def _cut_colour(part: str, first: int, last: int) -> str:
    digits = len(part) - len(part.lstrip("#0123456789"))
    pixels = _REPEATED.sub(lambda match: match[2] * int(match[1]), part[digits:])
    return part[:digits] + pixels[first:last].rstrip("?")
