"""List of classes."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from frn_tui.terminal.text import display_name
from frn_tui.widgets.options import OneLine, Options


@dataclass(frozen=True, slots=True)
class ClassRow:
    """Data of a class in the list."""

    id: int
    name: str
    images: int
    quality: float | None = None
    """Fraction of its examples that leave-one-out classifies correctly; None if unknown."""
    trouble: str = ""
    """Problem with the class; the list marks classes that have one."""
    number: int = 0
    """Position among the classes, whose first nine have number keys; 0 uses the position in the list."""


class _Line(OneLine):
    def __init__(self, row: ClassRow, number: int) -> None:
        self.row, self.number = row, number

    def segment(self, width: int, style: Style) -> Segment:
        row = self.row
        key = f"{self.number} " if self.number < 10 else "  "
        quality = _dots(row.quality)
        tail = f" {row.images:>3} {quality:<3}{'!' if row.trouble else ' '}"
        if width < 18:  # the name is more important than the count
            tail = "!" if row.trouble else " "
        name = display_name(row.name, max(width - len(key) - len(tail), 0))
        gap = " " * (width - len(key) - cell_len(name) - len(tail))
        return Segment(key + name + gap + tail, style)


def _dots(quality: float | None) -> str:
    if quality is None:
        return ""
    full = 3 if quality >= 0.9 else 2 if quality >= 0.7 else 1
    return "●" * full + "○" * (3 - full)


class ClassList(Options):
    """Classes with their number keys, number of images and quality."""

    @dataclass
    class Chosen(Message):
        """Another class was highlighted."""

        class_id: int

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(markup=False, id=id)
        self._class_rows: tuple[ClassRow, ...] = ()
        self._told: int | None = None

    @property
    def chosen_id(self) -> int | None:
        return None if self.highlighted is None else self._class_rows[self.highlighted].id

    def show(self, rows: Sequence[ClassRow]) -> None:
        """Replace the rows; the highlight stays with its class, or in its position if the class is gone."""
        rows = tuple(rows)
        if rows == self._class_rows:
            return
        place, chosen, scroll = self.highlighted or 0, self.chosen_id, self.scroll_y
        self._class_rows = rows
        self.set_options(Option(_Line(row, row.number or at), id=str(row.id)) for at, row in enumerate(rows, 1))
        if not rows:
            self._told = None
            return
        ids = [row.id for row in rows]
        self.highlighted = ids.index(chosen) if chosen in ids else min(place, len(rows) - 1)
        self.scroll_to(y=scroll, animate=False)
        self.scroll_to_highlight()

    def choose(self, class_id: int) -> None:
        for index, row in enumerate(self._class_rows):
            if row.id == class_id:
                self.highlighted = index

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        chosen = self.chosen_id
        if chosen is not None and chosen != self._told:
            self._told = chosen
            self.post_message(self.Chosen(chosen))
