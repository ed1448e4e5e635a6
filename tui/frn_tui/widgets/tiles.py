"""What an item of the gallery looks like, and the pictures that are in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size

from frn_tui.rgb import Rgb
from frn_tui.text import display_name
from frn_tui.widgets import cells
from frn_tui.widgets.cells import Mode

Mark = Literal["", "broken", "missing", "near", "outlier"]
StyleOf = Callable[[str], Style]
"""From "name", "cursor", "selected", "mark" or "waiting" to a style."""

TILE = Size(16, 8)
"""Cells of a picture."""
NO_PICTURE = ("broken", "missing")
"""Marks of files that cannot be drawn."""
CACHED_PICTURES = 512
"""Pictures in memory."""

GLYPHS = {"cursor": "›", "selected": "✓", "broken": "⚠", "missing": "?", "near": "≈", "outlier": "!", "": ""}
ASCII_GLYPHS = {"cursor": ">", "selected": "*", "broken": "x", "missing": "?", "near": "~", "outlier": "!", "": ""}


@dataclass(frozen=True, slots=True)
class GalleryItem:
    """An image as the gallery shows it."""

    path: str
    name: str
    key: str | None = None
    """Of its content, once known."""
    mark: Mark = ""
    note: str = ""
    """What the mark means here, like the reason why a file is broken."""


class Tiles:
    """The pictures that came last, and the same drawn as cells."""

    def __init__(self) -> None:
        self._pictures: LRUCache[str, Rgb] = LRUCache(CACHED_PICTURES)
        self._drawn: LRUCache[str, list[list[Segment]]] = LRUCache(CACHED_PICTURES)

    def put(self, path: str, picture: Rgb) -> None:
        self._pictures[path] = picture
        self._drawn.discard(path)

    def drop(self, path: str) -> None:
        self._pictures.discard(path)
        self._drawn.discard(path)

    def redraw(self) -> None:
        self._drawn.clear()

    def has(self, path: str, size: tuple[int, int]) -> bool:
        picture = self._pictures.get(path)
        return picture is not None and (picture.width, picture.height) == size

    def lines(self, item: GalleryItem, mode: Mode, text: Style, waiting: Style, *, dark: bool) -> list[list[Segment]]:
        """A tile, line by line; `text` is the style of ASCII pictures, `waiting` that of a tile without a picture."""
        drawn = self._drawn.get(item.path)
        if drawn is None:
            picture = self._pictures.get(item.path)
            if picture is None:
                return _placeholder(item, waiting)
            drawn = [cells.segments(line) for line in cells.draw(picture, *TILE, mode, text, dark=dark)]
            self._drawn[item.path] = drawn
        return drawn


def _placeholder(item: GalleryItem, style: Style) -> list[list[Segment]]:
    lines = [" " * TILE.width] * TILE.height
    lines[TILE.height // 2 - 1] = (item.mark if item.mark in NO_PICTURE else "...").center(TILE.width)
    return [[Segment(line, style)] for line in lines]


def caption(
    item: GalleryItem, width: int, style: StyleOf, *, cursor: bool, selected: bool, ascii_only: bool
) -> list[Segment]:
    """Glyphs and the name, over the full width."""
    glyphs = ASCII_GLYPHS if ascii_only else GLYPHS
    lead = (glyphs["cursor"] if cursor else " ") + (glyphs["selected"] if selected else "")
    mark = glyphs[item.mark]
    room = max(width - len(lead) - len(mark), 0)
    name = display_name(item.name, room)
    name += " " * (room - cell_len(name))
    if cursor:
        return [Segment(lead + mark + name, style("cursor"))]
    plain = style("selected" if selected else "name")
    return [Segment(lead, plain), Segment(mark, style("mark")), Segment(name, plain)]


def list_line(
    item: GalleryItem, width: int, style: StyleOf, *, cursor: bool, selected: bool, ascii_only: bool
) -> list[Segment]:
    """The caption and what there is to say of the item, over the full width."""
    note = display_name(item.note, width // 2)
    named = width - cell_len(note) - 2 if note else width
    line = caption(item, named, style, cursor=cursor, selected=selected, ascii_only=ascii_only)
    return [*line, Segment(f"  {note}", style("cursor" if cursor else "mark"))] if note else line
