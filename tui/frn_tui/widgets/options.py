"""Textual's lists without crashes on keys that arrive before layout or after closing."""

from typing import ClassVar

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


class OneLine(Visual):
    """An option of one row, laid out for any width, and only once it is on the screen."""

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return 1

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        return [Strip([self.segment(width, style.rich_style)]).adjust_cell_length(width, style.rich_style)]

    def segment(self, width: int, style: RichStyle) -> Segment:
        """Return the row as text in a style."""
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
    """The command palette; once closed, it ignores a second Enter and a late search."""

    def dismiss(self, result: None = None) -> AwaitComplete:
        self._cancel_gather_commands()
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()

    def _gather_commands(self, search_value: str) -> None:  # type: ignore[override]
        if self.app.screen is self:
            super()._gather_commands(search_value)

    def _action_command_list(self, action: str) -> None:
        if any(commands.scrollable_content_region for commands in self.query(CommandList)):
            super()._action_command_list(action)
