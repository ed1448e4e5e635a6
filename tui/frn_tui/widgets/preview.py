"""A single photo as large as possible, with zoom, panning and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from frn_tui.client.protocol import RenderPreview
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.pixels import MAX_CELLS, graphics_of
from frn_tui.terminal.rendered_picture import Picture
from frn_tui.terminal.text import display_name
from frn_tui.widgets import cells

STEP = 2.0
"""Zoom factor of a key."""
WHEEL = 1.25
MAX_ZOOM = 16.0
PAN = 0.25
"""Fraction of the view that a key pans by."""
MIDDLE = (0.5, 0.5)


class Preview(Widget, can_focus=True):
    """Shows a photo and reports when it needs another rendering.

    Until the new rendering arrives, the old one is scaled, so that resizing never leaves an empty area.
    """

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "pan(-1, 0)", "Left", show=False),
        Binding("right,l", "pan(1, 0)", "Right", show=False),
        Binding("up,k", "pan(0, -1)", "Up", show=False),
        Binding("down,j", "pan(0, 1)", "Down", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"preview--empty"}

    mode: reactive[Mode] = reactive("half", init=False)
    empty_text: reactive[str] = reactive("", init=False)

    @dataclass
    class Wanted(Message):
        """Another rendering is needed; `Preview.request` describes it."""

        preview: "Preview"

    def __init__(self, *, mode: Mode = "half", empty_text: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Preview.mode, mode)
        self.set_reactive(Preview.empty_text, empty_text)
        self.framed = False
        """Whether a line is drawn around the model's input."""
        self.zoom, self.centre = 1.0, MIDDLE
        """Zoom relative to the whole photo, and the point at the centre."""
        self._picture: Picture | None = None
        self._numbers: Sequence[Sequence[float]] | None = None
        self._announced: object = None
        self._announcing = False
        self._held: tuple[int, int] | None = None
        self._rendered: tuple[object, list[Strip]] = (None, [])

    def request(self, path: str, **more: Any) -> RenderPreview | None:
        """Return the request for the engine; None if there is no room for an image or images are off."""
        if self.mode == "none" or not all(self.size):
            return None
        about = graphics_of(self.app).wanted(self.mode, framed=self.framed)
        columns, rows = (min(side, MAX_CELLS) for side in self.size)
        return RenderPreview(path, columns, rows, self.mode, zoom=self.zoom, centre=list(self.centre), **about, **more)

    def show(self, picture: Picture | None) -> None:
        graphics_of(self.app).send(picture)
        self._picture = picture
        if picture is not None and self.zoom > 1:  # the engine limits it to the photo
            left, top, right, bottom = picture.view
            self.centre = (left + right) / 2, (top + bottom) / 2
        self._changed()

    def show_numbers(self, grid: Sequence[Sequence[float]] | None) -> None:
        """Write at the centre of each location its decile of the grid's values; None removes the digits."""
        self._numbers = grid if grid and grid[0] else None
        self._changed()

    def look_at(self, zoom: float, centre: tuple[float, float] = MIDDLE) -> None:
        """Zoom the photo around a point, given in fractions of its sides."""
        self.zoom = min(max(zoom, 1.0), MAX_ZOOM)
        self.centre = centre if self.zoom > 1 else MIDDLE
        self._want()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable panning if the whole photo is in view, which leaves the keys to others."""
        return action != "pan" or self.zoom > 1

    def action_pan(self, x: int, y: int) -> None:
        if self._picture is not None:
            left, top, right, bottom = self._picture.view
            self._move(x * PAN * (right - left), y * PAN * (bottom - top))

    def _move(self, x: float, y: float) -> None:
        self.look_at(self.zoom, (min(max(self.centre[0] + x, 0.0), 1.0), min(max(self.centre[1] + y, 0.0), 1.0)))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1 / WHEEL)

    def _wheel(self, event: events.MouseEvent, times: float) -> None:
        """Zoom in or out around the point under the mouse."""
        event.stop()
        if (picture := self._picture) is None:
            return
        left, top, right, bottom = picture.view
        offset = event.get_content_offset(self)
        shown = picture.fitted(*self.size)
        x = (offset.x - (self.size.width - shown.columns) // 2 + 0.5) / shown.columns if offset else 0.5
        y = (offset.y - (self.size.height - shown.rows) // 2 + 0.5) / shown.rows if offset else 0.5
        zoom = min(max(self.zoom * times, 1.0), MAX_ZOOM)
        shrinks = self.zoom / zoom
        at = left + x * (right - left), top + y * (bottom - top)
        self.look_at(zoom, (at[0] + (self.centre[0] - at[0]) * shrinks, at[1] + (self.centre[1] - at[1]) * shrinks))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self.zoom > 1:
            self._held = event.screen_x, event.screen_y
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held is not None and (picture := self._picture) is not None:
            x, y = event.screen_x - self._held[0], event.screen_y - self._held[1]
            self._held = event.screen_x, event.screen_y
            left, top, right, bottom = picture.view
            self._move(-x * (right - left) / picture.columns, -y * (bottom - top) / picture.rows)

    def on_mouse_up(self, _: events.MouseUp) -> None:
        if self._held is not None:
            self._held = None
            self.release_mouse()

    def on_resize(self, _: events.Resize) -> None:
        self._want()

    def watch_mode(self) -> None:
        self._changed()
        self._want()

    def notify_style_update(self) -> None:
        self._changed()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        key = (self.size, self.mode, self.empty_text, self.app.current_theme.dark)
        if self._rendered[0] != key:
            self._rendered = key, self._draw()
        lines = self._rendered[1]
        return lines[y] if y < len(lines) else Strip.blank(self.size.width, self.visual_style.rich_style)

    def _changed(self) -> None:
        self._rendered = None, []
        self.refresh()

    def _want(self) -> None:
        if not self._announcing:
            self._announcing = True
            self.call_after_refresh(self._announce)

    def _announce(self) -> None:
        """Request a rendering once for several changes in a row."""
        self._announcing = False
        wanted = self.request("")
        if wanted != self._announced and wanted is not None:
            self._announced = wanted
            self.post_message(self.Wanted(self))

    def _draw(self) -> list[Strip]:
        width, height = self.size
        if self._picture is None or self.mode == "none" or not width or not height:
            return self._hint()
        base = self.visual_style.rich_style
        picture = self._picture.fitted(width, height)
        canvas = cells.draw(picture, base, dark=self.app.current_theme.dark)
        if self.framed and not picture.is_pixels:
            cells.write_frame(canvas, picture)
        if self._numbers is not None:
            cells.write_numbers(canvas, picture, self._numbers)
        left = (width - picture.columns) // 2
        before, after = Segment(" " * left, base), Segment(" " * (width - picture.columns - left), base)
        lines = [Strip([before, *cells.segments(line), after], width) for line in canvas]
        return [Strip.blank(width, base)] * ((height - picture.rows) // 2) + lines

    def _hint(self) -> list[Strip]:
        width, height = self.size
        style = self.get_visual_style("preview--empty").rich_style
        text = self.empty_text if self._picture is None else "images are off"
        lines = [part for line in text.splitlines() for part in wrap(line, max(width, 1)) or [""]][:height]
        blank = Strip.blank(width, self.visual_style.rich_style)
        above = [blank] * ((height - len(lines)) // 2)
        shown = [display_name(line, width).center(width) for line in lines]
        return above + [Strip([Segment(line, style)]).adjust_cell_length(width, style) for line in shown]
