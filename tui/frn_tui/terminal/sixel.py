"""Sixel in place of placeholders.

Textual writes any part of an image as a run of placeholders (`frn_tui.terminal.pixels`) within one row of the image.
The run is written as spaces with the pixels of exactly these cells over them. So its surroundings stay unchanged, and
later text replaces the pixels like other text.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from frn_tui.terminal.marks import PLACEHOLDER, PLACES

BEGIN, END = '\x1bP0;1q"1;1;', "\x1b\\"
"""Start and end of a Sixel image with square pixels, which leaves unspecified ones unchanged."""
_RUN = re.compile(f"\x1b\\[([0-9;]*)m((?:{PLACEHOLDER}...)+)")
_COLOUR = re.compile(r"(?:^|;)38;5;(\d+)")
_REPEATED = re.compile("!([0-9]+)(.)")


class Rows(NamedTuple):
    """Sixel data of an image, separate for each row of cells."""

    cell: tuple[int, int]  # width and height of a cell in pixels
    rows: tuple[tuple[str, ...], ...]
    """Pieces from left to right, each with as many cells as `cells_of_piece` returns.

    A piece has the colour definitions, `|`, and bands of six pixels separated by `-`, with their colours separated by
    `$`.
    """
    columns: int


def cells_of_piece(cell_width: int) -> int:
    """Return the number of cells per piece; by default xterm accepts at most 1,000 pixels per side."""
    return max(960 // cell_width, 1)  # largest width of a piece in pixels


def translated(text: str, rows_of: Callable[[int, str], Rows | None]) -> str:
    """Return a text with its placeholders replaced by Sixel.

    Args:
        text: text in which each placeholder has three marks.
        rows_of: returns the image of a colour and a third mark; None if it is gone.
    """

    def replaced(match: re.Match[str]) -> str:
        codes, run = match.groups()
        colour = _COLOUR.search(codes)
        picture = rows_of(int(colour[1]), run[3]) if colour else None
        cells = len(run) // 4
        blanks = f"\x1b[{codes}m" + " " * cells
        first, row = PLACES[run[2]], PLACES[run[1]]
        if picture is None or row >= len(picture.rows):
            return blanks
        (width, height), rendered = picture.cell, ""
        size = cells_of_piece(width)
        for number, piece in enumerate(picture.rows[row]):
            start, stop = number * size, min((number + 1) * size, picture.columns)
            left, right = max(first, start), min(first + cells, stop)
            if left < right:
                colours, _, bands = piece.partition("|")
                if right - left < stop - start:
                    bands = cut(bands, (left - start) * width, (right - start) * width)
                begin = f"{BEGIN}{(right - left) * width};{height}"
                rendered += f"\x1b8{_ahead(left - first)}{begin}{colours}{bands}{END}"
        return f"\x1b7{blanks}{rendered}\x1b8{_ahead(cells)}"

    return _RUN.sub(replaced, text)


def _ahead(cells: int) -> str:
    return f"\x1b[{cells}C" if cells else ""


@lru_cache(256)
def cut(bands: str, first: int, last: int) -> str:
    return "-".join("$".join(_cut_colour(part, first, last) for part in band.split("$")) for band in bands.split("-"))


def _cut_colour(part: str, first: int, last: int) -> str:
    digits = len(part) - len(part.lstrip("#0123456789"))
    pixels = _REPEATED.sub(lambda match: match[2] * int(match[1]), part[digits:])
    return part[:digits] + pixels[first:last].rstrip("?")
