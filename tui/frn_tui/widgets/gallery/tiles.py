"""Tiles of the gallery, and the images in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Size

from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.marks import WAITING
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.text import display_name
from frn_tui.widgets import cells

Mark = Literal["", "broken", "missing", "near", "outlier"]
StyleOf = Callable[[str], Style]
"""Function from "name", "cursor", "selected", "mark" or "waiting" to a style."""

NO_PICTURE = ("broken", "missing")
"""Marks of files that cannot be drawn."""
SHORTEST_NAME = 12
"""Cells reserved for a name beside a long note."""
CACHED_PICTURES = 512
"""Maximum number of images in memory."""
CACHED_CELLS = 1 << 16
"""Maximum number of cells of drawn images to keep."""

GLYPHS = {"cursor": "›", "selected": "✓", "broken": "⚠", "missing": "?", "near": "≈", "outlier": "!", "": ""}
ASCII_GLYPHS = {"cursor": ">", "selected": "*", "broken": "x", "missing": "?", "near": "~", "outlier": "!", "": ""}


@dataclass(frozen=True, slots=True)
class GalleryItem:
    """An image in the gallery."""

    path: str
    name: str
    key: str | None = None
    """Hash of its content, if known."""
    mark: Mark = ""
    note: str = ""
    """Meaning of the mark, such as why a file is broken."""


class Tiles:
    """The most recent images, and their drawn cells."""

    def __init__(self) -> None:
        self._pictures: LRUCache[str, tuple[RenderPreview, Picture]] = LRUCache(CACHED_PICTURES)
        self._rendered: LRUCache[str, list[list[Segment]]] = LRUCache(CACHED_PICTURES)
        self._tile = Size()

    def put(self, request: RenderPreview, picture: Picture) -> None:
        self._pictures[request.path] = request, picture
        self._rendered.discard(request.path)

    def drop(self, path: str) -> None:
        self._pictures.discard(path)
        self._rendered.discard(path)

    def redraw(self) -> None:
        self._rendered.clear()

    def has(self, request: RenderPreview) -> bool:
        found = self._pictures.get(request.path)
        return found is not None and found[0] == request

    def lines(self, item: GalleryItem, tile: Size, text: Style, waiting: Style, *, dark: bool) -> list[list[Segment]]:
        """Return a tile, line by line.

        `text` is the style of ASCII images, `waiting` that of a tile without an image.
        """
        if tile != self._tile:
            self._tile, self._rendered = tile, LRUCache(max(CACHED_CELLS // max(tile.area, 1), 1))
        rendered = self._rendered.get(item.path)
        if rendered is None:
            found = self._pictures.get(item.path)
            if found is None:
                return _placeholder(item, tile, waiting)
            rendered = self._rendered[item.path] = _centred(found[1].fitted(*tile), tile, text, dark=dark)
        return rendered


def _centred(picture: Picture, tile: Size, text: Style, *, dark: bool) -> list[list[Segment]]:
    left, above = (tile.width - picture.columns) // 2, (tile.height - picture.rows) // 2
    before, after = Segment(" " * left, text), Segment(" " * (tile.width - picture.columns - left), text)
    blank = [Segment(" " * tile.width, text)]
    lines = [[before, *cells.segments(line), after] for line in cells.draw(picture, text, dark=dark)]
    return [*[blank] * above, *lines, *[blank] * (tile.height - picture.rows - above)]


def _placeholder(item: GalleryItem, tile: Size, style: Style) -> list[list[Segment]]:
    lines = [WAITING * tile.width] * tile.height
    word = item.mark if item.mark in NO_PICTURE else "..."
    lines[max(tile.height // 2 - 1, 0)] = word.center(tile.width, WAITING)[: tile.width]
    return [[Segment(line, style)] for line in lines]


def caption(
    item: GalleryItem, width: int, style: StyleOf, *, cursor: bool, selected: bool, ascii_only: bool
) -> list[Segment]:
    """Return the glyphs and the name, over the full width."""
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
    """Return the caption and the item's note, over the full width."""
    note = display_name(item.note, max(width - SHORTEST_NAME - 2, width // 2))  # cut the name, not the note
    named = width - cell_len(note) - 2 if note else width
    line = caption(item, named, style, cursor=cursor, selected=selected, ascii_only=ascii_only)
    return [*line, Segment(f"  {note}", style("cursor" if cursor else "mark"))] if note else line
