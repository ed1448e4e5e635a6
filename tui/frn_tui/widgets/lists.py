"""The list of classes, and Textual's lists without crashes on keys that arrive before layout or after closing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.command import CommandList, CommandPalette
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from frn_tui.terminal.text import display_name


class OneLine(Visual):
    """An option of one row, laid out for any width, and only once it is on the screen."""

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        return [Strip([self.segment(width, style.rich_style)]).adjust_cell_length(width, style.rich_style)]

    def segment(self, width: int, style: RichStyle) -> Segment:
        raise NotImplementedError


class Options(OptionList):
    """A list of options that ignores page keys before it is laid out."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]

    def action_page_up(self) -> None:
        if self.scrollable_content_region:
            super().action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        if self.scrollable_content_region:
            super().action_page_down()  # type: ignore[no-untyped-call]


class Palette(CommandPalette):
    """The command palette; it cannot be closed before it is open, and then ignores a second Enter and a late search."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        self._cancel_gather_commands()
        return super().dismiss(result) if self.app.screen is self and self.is_mounted else AwaitComplete()

    def _gather_commands(self, search_value: str) -> None:  # type: ignore[override]
        if self.app.screen is self:
            super()._gather_commands(search_value)

    def _action_command_list(self, action: str) -> None:
        if any(commands.scrollable_content_region for commands in self.query(CommandList)):
            super()._action_command_list(action)


@dataclass(frozen=True, slots=True)
class ClassRow:
    id: int
    number: int  # position among the classes, whose first nine have number keys
    name: str
    images: int
    quality: float | None = None  # fraction of its examples that leave-one-out classifies correctly; None if unknown
    trouble: str = ""  # problem with the class; the list marks classes that have one


class _Line(OneLine):
    def __init__(self, row: ClassRow) -> None:
        self.row = row

    def segment(self, width: int, style: RichStyle) -> Segment:
        row = self.row
        key = f"{row.number} " if row.number < 10 else "  "
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

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(markup=False, id=id)
        self._class_rows: tuple[ClassRow, ...] = ()

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
        self.set_options(Option(_Line(row), id=str(row.id)) for row in rows)
        if not rows:
            return
        ids = [row.id for row in rows]
        self.highlighted = ids.index(chosen) if chosen in ids else min(place, len(rows) - 1)
        self.scroll_to(y=scroll, animate=False)
        self.scroll_to_highlight()

    def choose(self, class_id: int) -> None:
        for index, row in enumerate(self._class_rows):
            if row.id == class_id:
                self.highlighted = index
