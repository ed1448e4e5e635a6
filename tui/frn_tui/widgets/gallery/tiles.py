"""Items of the gallery, and their names and marks as text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from frn_tui.terminal.text import display_name

Mark = Literal["", "broken", "missing", "near", "outlier"]
StyleOf = Callable[[str], Style]
"""Function from "name", "cursor", "selected" or "mark" to a style."""

NO_PICTURE = ("broken", "missing")
"""Marks of files that cannot be drawn."""
SHORTEST_NAME = 12
"""Cells reserved for a name beside a long note."""
GLYPHS = {"broken": "⚠", "missing": "?", "near": "≈", "outlier": "!", "": ""}


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


def caption(item: GalleryItem, width: int, style: StyleOf, *, cursor: bool, selected: bool) -> list[Segment]:
    """Return the glyphs and the name, over the full width."""
    lead, mark = f"{'›' if cursor else ' '}{'✓' if selected else ''}", GLYPHS[item.mark]
    room = max(width - len(lead) - len(mark), 0)
    name = display_name(item.name, room)
    name += " " * (room - cell_len(name))
    if cursor:
        return [Segment(lead + mark + name, style("cursor"))]
    plain = style("selected" if selected else "name")
    return [Segment(lead, plain), Segment(mark, style("mark")), Segment(name, plain)]


def list_line(item: GalleryItem, width: int, style: StyleOf, *, cursor: bool, selected: bool) -> list[Segment]:
    """Return the caption and the item's note, over the full width."""
    note = display_name(item.note, max(width - SHORTEST_NAME - 2, width // 2))  # cut the name, not the note
    named = width - cell_len(note) - 2 if note else width
    line = caption(item, named, style, cursor=cursor, selected=selected)
    return [*line, Segment(f"  {note}", style("cursor" if cursor else "mark"))] if note else line
