"""One picture, as large as its place allows, with numbers over it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from frn_tui.rgb import Rgb
from frn_tui.text import display_name
from frn_tui.widgets import cells
from frn_tui.widgets.cells import Mode


class Preview(Widget, can_focus=True):
    """Shows a picture, and says how many pixels it would like to have.

    A picture of another size is drawn until the right one comes, so that resizing never leaves the place empty.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"preview--empty"}

    mode: reactive[Mode] = reactive("half", init=False)
    empty_text: reactive[str] = reactive("", init=False)

    @dataclass
    class Wanted(Message):
        """The picture should come with this many pixels from now on."""

        width: int
        height: int

    def __init__(self, *, mode: Mode = "half", empty_text: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Preview.mode, mode)
        self.set_reactive(Preview.empty_text, empty_text)
        self._picture: Rgb | None = None
        self._grid: Sequence[Sequence[float]] | None = None
        self._range = (0.0, 1.0)
        self._announced = (0, 0)
        self._announcing = False
        self._drawn: tuple[object, list[Strip]] = (None, [])

    @property
    def pixel_size(self) -> tuple[int, int]:
        """Width and height in pixels of the largest square picture that fits; (0, 0) where none does."""
        columns, rows = cells.square(*self.size)
        across, down = cells.PIXELS[self.mode]
        return columns * across, rows * down

    def show(self, picture: Rgb | None) -> None:
        self._picture = picture
        self._changed()

    def show_numbers(self, grid: Sequence[Sequence[float]] | None) -> None:
        """Write a digit at the centre of each location: its decile of the grid's values; None takes the digits away."""
        self._grid = grid if grid and grid[0] else None
        values = [value for row in self._grid or () for value in row if isfinite(value)] or [0.0]
        self._range = min(values), max(values)
        self._changed()

    def on_resize(self, _: events.Resize) -> None:
        self._want()

    def watch_mode(self) -> None:
        self._want()

    def notify_style_update(self) -> None:
        self._changed()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        key = (self.size, self.mode, self.empty_text, self.app.current_theme.dark)
        if self._drawn[0] != key:
            self._drawn = key, self._draw()
        lines = self._drawn[1]
        return lines[y] if y < len(lines) else Strip.blank(self.size.width, self.visual_style.rich_style)

    def _changed(self) -> None:
        self._drawn = None, []
        self.refresh()

    def _want(self) -> None:
        if not self._announcing:
            self._announcing = True
            self.call_after_refresh(self._announce)

    def _announce(self) -> None:
        """Ask once for several changes in a row."""
        self._announcing = False
        wanted = self.pixel_size
        if wanted != self._announced and all(wanted):
            self._announced = wanted
            self.post_message(self.Wanted(*wanted))

    def _draw(self) -> list[Strip]:
        width, height = self.size
        columns, rows = cells.square(width, height)
        if not rows or (self._grid is None and (self._picture is None or self.mode == "none")):
            return self._hint()
        base = self.visual_style.rich_style
        if self._picture is None:
            canvas: cells.Canvas = [[(" ", base)] * columns for _ in range(rows)]
        else:
            dark = self.app.current_theme.dark
            canvas = cells.draw(self._picture, columns, rows, self.mode, base, dark=dark)
        if self._grid is not None:
            colored = self._picture is not None and self.mode in ("half", "quad")
            cells.write_numbers(canvas, self._grid, *self._range, colored=colored)
        left = (width - columns) // 2
        before, after = Segment(" " * left, base), Segment(" " * (width - columns - left), base)
        lines = [Strip([before, *cells.segments(line), after], width) for line in canvas]
        return [Strip.blank(width, base)] * ((height - rows) // 2) + lines

    def _hint(self) -> list[Strip]:
        width, height = self.size
        style = self.get_visual_style("preview--empty").rich_style
        text = self.empty_text if self._picture is None else "pictures are off"
        lines = [part for line in text.splitlines() for part in wrap(line, max(width, 1)) or [""]][:height]
        blank = Strip.blank(width, self.visual_style.rich_style)
        above = [blank] * ((height - len(lines)) // 2)
        shown = [display_name(line, width).center(width) for line in lines]
        return above + [Strip([Segment(line, style)]).adjust_cell_length(width, style) for line in shown]
