"""A single photo as large as possible, with zoom and panning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from frn.images.boxes import Box, box_name, split_box
from frn_tui.client.protocol import Heat, Look, RenderPreview
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.pixels import MAX_CELLS, graphics_of
from frn_tui.terminal.rendered_picture import WHOLE, Picture
from frn_tui.terminal.text import display_name
from frn_tui.widgets.cells import picture_line

STEP = 2.0
"""Zoom factor of a key."""
MAX_ZOOM = 16.0
PAN = 0.25
"""Fraction of the view that a key pans by."""
MIDDLE = (0.5, 0.5)


@dataclass
class PicturesWanted(Message):
    """A widget lacks these images; its earlier requests no longer need an answer."""

    widget: Widget
    requests: Sequence[RenderPreview]
    provide: Callable[[RenderPreview, Picture | None], None]
    """Accepts an image, or None if it could not be rendered."""


class Preview(Widget, can_focus=True):
    """Shows a photo, and requests another image of it whenever its size, mode or view changes."""

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

    def __init__(self, *, mode: Mode = "half", empty_text: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Preview.mode, mode)
        self.set_reactive(Preview.empty_text, empty_text)
        self.zoom, self.centre = 1.0, MIDDLE
        """Zoom relative to the whole photo, and the point at the centre."""
        self.follower: Preview | None = None
        """A preview that shows the same part of its photo."""
        self.picture: Picture | None = None
        self._path, self._framed = "", False
        self._look: Look = "photo"
        self._heat: Heat | None = None
        self._wanted: RenderPreview | None = None
        self._wanting = False

    def show(self, path: str, look: Look = "photo", heat: Heat | None = None, *, framed: bool = False) -> None:
        """Show a photo; without a path, show nothing.

        Args:
            path: path of the photo.
            look: whether the error map is drawn over it or in its place.
            heat: error map, if `look` shows one.
            framed: draw a line around the model's input.
        """
        self._path, self._look, self._heat, self._framed = path, look, heat, framed
        if not path:
            self.picture = None
        self.refresh()
        self._want()

    @property
    def request(self) -> RenderPreview | None:
        """Return the request for the image to show; None without a photo, without room, and if images are off."""
        if not self._path or self.mode == "none" or not all(self.size):
            return None
        columns, rows = (min(side, MAX_CELLS) for side in self.size)
        look = self._look, self._heat, self.zoom, list(self.centre), self._framed
        return RenderPreview(self._path, columns, rows, self.mode, *look, **graphics_of(self.app).wanted(self.mode))

    def provide(self, request: RenderPreview, picture: Picture | None) -> None:
        """Show a requested image, or nothing if it could not be rendered."""
        if request != self._wanted:
            return
        graphics_of(self.app).send(picture)
        self.picture = picture
        if picture is not None and self.zoom > 1:  # the engine limits the view to the photo
            left, top, right, bottom = picture.view
            self.centre = (left + right) / 2, (top + bottom) / 2
            self._wanted = self.request
        self.refresh()

    def look_at(self, zoom: float, centre: tuple[float, float] = MIDDLE) -> None:
        """Zoom the photo around a point, given in fractions of its sides."""
        self.zoom = min(max(zoom, 1.0), MAX_ZOOM)
        self.centre = centre if self.zoom > 1 else MIDDLE
        self._want()
        if self.follower is not None:
            self.follower.look_at(zoom, centre)

    def part(self) -> str:
        """Return the name of the visible part of the photo (`frn.images.boxes`), or of its file if all is visible."""
        file, box = split_box(self._path)
        if self.picture is None or self.zoom <= 1 or self.picture.view == WHOLE:
            return str(file)
        across, down = self.picture.photo
        left, top, right, bottom = (
            round(share * side) for share, side in zip(self.picture.view, (across, down) * 2, strict=True)
        )
        start = (box.left, box.top) if box else (0, 0)
        seen = Box(start[0] + left, start[1] + top, max(right - left, 1), max(bottom - top, 1))
        return box_name(str(file), seen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable panning if the whole photo is in view, which leaves the keys to others."""
        return action != "pan" or self.zoom > 1

    def action_pan(self, x: int, y: int) -> None:
        across, down = (
            min(max(at + step * PAN / self.zoom, 0), 1) for at, step in zip(self.centre, (x, y), strict=True)
        )
        self.look_at(self.zoom, (across, down))

    def on_resize(self, _: events.Resize) -> None:
        self._want()

    def watch_mode(self) -> None:
        self._want()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        base = self.visual_style.rich_style
        if self.picture is not None and self.mode != "none":
            return Strip(picture_line(self.picture, y, self.size, base), width)
        style = self.get_visual_style("preview--empty").rich_style
        text = self.empty_text if self.picture is None else "images are off"
        lines = [part for line in text.splitlines() for part in wrap(line, max(width, 1)) or [""]][:height]
        row = y - (height - len(lines)) // 2
        shown = display_name(lines[row], width).center(width) if 0 <= row < len(lines) else ""
        return Strip([Segment(shown, style)]).adjust_cell_length(width, base)

    def _want(self) -> None:
        """Request an image once for several changes in a row."""
        if not self._wanting:
            self._wanting = True
            self.call_after_refresh(self._ask)

    def _ask(self) -> None:
        self._wanting = False
        request = self.request
        if request != self._wanted:
            self._wanted = request
            self.app.post_message(PicturesWanted(self, [] if request is None else [request], self.provide))
