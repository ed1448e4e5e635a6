"""Keeps the cells that the terminal shows, so that an update writes only those that differ.

Textual writes whole regions again, so a cursor that moves among photos would cost a screen of pixels per key. Text is
written first. Cells of images follow in small pieces while no text is waiting, so that keys respond even on a slow
line.
"""

import itertools
from collections.abc import Iterable, Iterator
from functools import lru_cache

from rich.cells import get_character_cell_size
from rich.color import Color, ColorSystem, ColorType
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from frn_tui.terminal.marks import PLACEHOLDER, WAITING
from frn_tui.terminal.modes import HALF_BLOCK

PICTURES = frozenset(HALF_BLOCK + PLACEHOLDER + WAITING)  # characters that draw images, and places where they will be
Cell = tuple[str, Style]  # a character with its combining marks, and its style; empty after a wide character
NOTHING: Cell = ("\0", Style.null())
Codes = tuple[str, str, str]  # codes of a style's attributes, of its colour and of its background
UNKNOWN: Codes = "?", "", ""
UNSEEN = ("", "1", "2", "3")  # attributes that do not change a blank: bold, dim and italic


class CellBuffer:
    """The cells that a terminal should show, and those that it does show."""

    def __init__(self) -> None:
        self._wanted: list[list[Cell]] = []
        self._shown: list[list[Cell]] = []
        self._stale: set[int] = set()  # lines whose cells may differ

    def forget(self) -> None:
        self._shown = [[NOTHING] * len(line) for line in self._wanted]
        self._stale = set(range(len(self._wanted)))

    def take(self, update: CompositorUpdate, width: int, height: int) -> bool:
        """Accept an update of a screen of some size; return False if its kind is not supported here."""
        if not isinstance(update, LayoutUpdate | ChopsUpdate):
            return False
        if len(self._wanted) != height or any(len(line) != width for line in self._wanted[:1]):
            self._wanted = [[NOTHING] * width for _ in range(height)]
            self.forget()
        for x, y, strip in _layout_pieces(update) if isinstance(update, LayoutUpdate) else _chop_pieces(update):
            if 0 <= y < height:
                line, cells = self._wanted[y], _cells(strip)
                first = max(-x, 0)
                line[x + first : x + len(cells)] = cells[first : max(width - x, 0)]
                self._stale.add(y)
        return True

    def written(self, color_system: ColorSystem, pictures: int) -> tuple[str, int]:
        """Return output that updates the terminal: all text, about that many bytes of images; and its image bytes."""
        parts: list[str] = []
        size, codes = 0, UNKNOWN
        for y in sorted(self._stale):
            wanted, shown = self._wanted[y], self._shown[y]
            has_moved = False
            for first, last in _runs(wanted, shown):
                is_picture = wanted[first][0][:1] in PICTURES
                if is_picture and size >= pictures:
                    has_moved = True
                    continue
                part, codes = _rendered(wanted[first:last], color_system, codes)
                size += len(part) if is_picture else 0
                parts.append(f"\x1b[{y + 1};{first + 1}H{part}")
                shown[first:last] = wanted[first:last]
            if not has_moved:
                self._stale.discard(y)
        return "".join([*parts, "\x1b[0m"] if parts else parts), size

    @property
    def is_stale(self) -> bool:
        return bool(self._stale)


def _layout_pieces(update: LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            yield x, y, strip
            x += strip.cell_length


def _chop_pieces(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    for y, first, last in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= last and end > first:
                yield x, y, strip


def _cells(strip: Strip) -> list[Cell]:
    cells: list[Cell] = []
    for text, its_style, control in strip:
        if control:
            continue
        style = its_style or NOTHING[1]
        if text.isascii():
            ground = _ground(style)
            cells += [(char, ground if char == " " else style) for char in text]
            continue
        for char in text:
            width = get_character_cell_size(char)
            if width == 0 and cells:
                cells[-1] = cells[-1][0] + char, cells[-1][1]
            else:
                cells.append((char, style))
                cells += [("", style)] * (width - 1)
    return cells


@lru_cache(1024)
def _ground(style: Style) -> Style:
    """Return what a blank shows of a style, so that blanks that look alike are equal."""
    is_plain = not (style.reverse or style.underline or style.strike or style.overline)
    return Style(bgcolor=style.bgcolor) if is_plain else style


def _runs(wanted: list[Cell], shown: list[Cell]) -> Iterable[tuple[int, int]]:
    """Return the ranges of cells that differ; those with few cells between them are joined, text and images apart."""
    if wanted == shown:
        return []
    runs: list[tuple[int, int]] = []
    for x, (new, old) in enumerate(zip(wanted, shown, strict=True)):
        if new == old:
            continue
        is_picture = new[0][:1] in PICTURES
        # Number of unchanged cells that are written again rather than skipped, because skipping takes as many bytes
        if runs and x - runs[-1][1] < 4 and (wanted[runs[-1][0]][0][:1] in PICTURES) == is_picture:
            runs[-1] = runs[-1][0], x + 1
        else:
            runs.append((x, x + 1))
    return runs


def _rendered(cells: list[Cell], color_system: ColorSystem, was: Codes) -> tuple[str, Codes]:
    """Return cells as text, with the codes of a style wherever they differ from those before, and the last codes."""
    parts: list[str] = []
    before: Cell | None = None
    for cell in cells:
        char, style = cell
        if cell == before and char != HALF_BLOCK:  # most cells of a screen are blanks like the last one
            parts.append(char)
            continue
        before, codes = cell, _codes(style, color_system)
        if char == " " and codes[0] == codes[1] == "" and was[0] in UNSEEN:
            codes = *was[:2], codes[2]  # a blank shows only its background
        elif char == HALF_BLOCK and codes[0] == "":
            char, codes = _half_block(codes, was)
        if codes != was:
            new = [code for code, old in zip(codes, was, strict=True) if code != old]
            if codes[0] != was[0] or "" in new:  # only a reset removes an attribute or a colour
                new = ["0", *filter(None, codes)]
            parts.append(f"\x1b[{';'.join(new)}m")
            was = codes
        parts.append(char)
    return "".join(parts), was


def _half_block(codes: Codes, was: Codes) -> tuple[str, Codes]:
    """Return a character that shows the same two halves, and its codes: the one that needs the fewest new colours."""
    upper, lower, front, back = codes[1][2:], codes[2][2:], was[1][2:], was[2][2:]
    if codes[1][:3] != "38;" or codes[2][:3] != "48;":  # one of the terminal's own 16 colours
        return HALF_BLOCK, codes
    if upper == lower:
        return ("█", ("", *was[1:])) if upper == front != back else (" ", ("", was[1], codes[2]))
    if (upper != back) + (lower != front) < (upper != front) + (lower != back):
        return "▄", ("", f"38{lower}", f"48{upper}")
    return HALF_BLOCK, codes


@lru_cache(8192)
def _codes(style: Style, color_system: ColorSystem) -> Codes:
    plain = style.without_color
    plain._ansi = None  # Textual caches it for the first colour system that is requested
    colours = (
        ";".join(_downgraded(colour, color_system).get_ansi_codes(foreground=is_front)) if colour is not None else ""
        for colour, is_front in ((style.color, True), (style.bgcolor, False))
    )
    return plain._make_ansi_codes(color_system), *colours  # type: ignore[return-value]


CUBE = (0, 95, 135, 175, 215, 255)
TABLE = [*itertools.product(CUBE, CUBE, CUBE), *((level,) * 3 for level in range(8, 248, 10))]
"""The terminal's colours 16 to 255."""


def _downgraded(colour: Color, color_system: ColorSystem) -> Color:
    """Return a colour that a terminal has; of 256 the nearest one, because Rich makes dark blue of a bluish grey."""
    if color_system != ColorSystem.EIGHT_BIT or colour.type != ColorType.TRUECOLOR or colour.triplet is None:
        return colour.downgrade(color_system)
    offs = [sum((a - b) ** 2 for a, b in zip(entry, colour.triplet, strict=True)) for entry in TABLE]
    return Color.from_ansi(16 + offs.index(min(offs)))
