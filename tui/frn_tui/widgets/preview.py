"""A single photo as large as possible, with zoom, panning and a box drawn with the mouse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset
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
from frn_tui.widgets.cells import margins, picture_line

STEP = 2.0  # zoom factor of a key
MIDDLE = (0.5, 0.5)
Corners = tuple[int, int, int, int]


@dataclass
class PicturesWanted(Message):
    """A widget lacks these images; its earlier requests no longer need an answer."""

    widget: Widget
    requests: Sequence[RenderPreview]
    provide: Callable[[RenderPreview, Picture | None], None]  # accepts an image, or None if it could not be rendered


@dataclass(frozen=True)
class Mark:
    """A frame around a part of a photo."""

    box: Sequence[float]  # left, top, width and height in fractions of the network's crop, or in pixels of the photo
    text: str = ""
    kind: Literal["mark", "faint"] = "mark"
    is_whole: bool = True  # whether all of the frame is drawn; corners alone change fewer cells, each up to 38 bytes
    in_pixels: bool = False


LATE = 0.5
"""Seconds for which the previous photo stays until the image of the next one arrives, so that steps do not flicker."""


class Preview(Widget, can_focus=True):
    """Shows a photo, and requests another image of it whenever its size, mode or view changes.

    With the mouse, a box can be drawn on a photo that can have the focus.
    """

    @dataclass
    class Drawn(Message):
        """A box was drawn; `part` is its name (`frn.images.boxes`)."""

        part: str

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "pan(-1, 0)", "Left", show=False),
        Binding("right,l", "pan(1, 0)", "Right", show=False),
        Binding("up,k", "pan(0, -1)", "Up", show=False),
        Binding("down,j", "pan(0, 1)", "Down", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"preview--empty", "preview--mark", "preview--faint"}

    mode: reactive[Mode] = reactive("half", init=False)
    empty_text: reactive[str] = reactive("", init=False)

    def __init__(self, *, mode: Mode = "half", empty_text: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.set_reactive(Preview.mode, mode)
        self.set_reactive(Preview.empty_text, empty_text)
        self.zoom, self.centre = 1.0, MIDDLE  # zoom relative to the whole photo, and the point at the centre
        self.follower: Preview | None = None  # a preview that shows the same part of its photo
        self.picture: Picture | None = None
        self._pictured = ""  # path of the photo that it shows
        self.on_picture: Callable[[RenderPreview], object] = lambda request: None
        """Called with the request of each image that is shown."""
        self._path, self._framed, self._subject, self._views = "", False, list[int](), False
        self._look: Look = "photo"
        self._heat: Heat | None = None
        self.wanted: RenderPreview | None = None
        self.wanting = False
        self.marks: list[Mark] = []
        self._drawn: tuple[Offset, Offset] | None = None
        """Cells where the mouse button was pressed and where the mouse is now, relative to the picture."""

    def show(
        self,
        path: str,
        look: Look = "photo",
        heat: Heat | None = None,
        *,
        framed: bool = False,
        subject: Sequence[int] = (),
        views: bool = False,
    ) -> None:
        """Show a photo; without a path, show nothing.

        Args:
            path: path of the photo.
            look: whether the error map is drawn over it or in its place.
            heat: error map, if `look` shows one.
            framed: draw a line around the subject or, without one, around the model's input.
            subject: left, top, width and height in pixels of the part that is the model's input.
            views: whether the model sees all of it, in views.
        """
        if path != self._path:
            self._drawn = None
            if self.is_attached and self.picture is not None:
                self.set_timer(LATE, partial(self._forget, self.picture))
        self._path, self._look, self._heat = path, look, heat
        self._framed, self._subject, self._views = framed, list(subject), views
        if not path:
            self.picture = None
        self.refresh()
        self._want()

    def _forget(self, picture: Picture) -> None:
        """Clear the image of the previous photo, because the next key acts on another one."""
        if self.picture is picture and self._path != self._pictured:
            self.picture = None
            self.refresh()

    @property
    def request(self) -> RenderPreview | None:
        """Return the request for the image to show; None without a photo, without room, and if images are off."""
        if not self._path or self.mode == "none" or not all(self.size):
            return None
        columns, rows = (min(side, MAX_CELLS) for side in self.size)
        look = self._look, self._heat, self.zoom, list(self.centre), self._framed, self._subject, self._views
        return RenderPreview(self._path, columns, rows, self.mode, *look, **graphics_of(self.app).wanted(self.mode))

    def provide(self, request: RenderPreview, picture: Picture | None) -> None:
        """Show a requested image, or nothing if it could not be rendered."""
        if request != self.wanted:
            return
        graphics_of(self.app).send(picture)
        self.picture, self._pictured = picture, request.path
        if picture is not None and self.zoom > 1:  # the engine limits the view to the photo
            left, top, right, bottom = picture.view
            self.centre = (left + right) / 2, (top + bottom) / 2
            self.wanted = self.request
        self.on_picture(request)
        self.refresh()

    def look_at(self, zoom: float, centre: tuple[float, float] = MIDDLE) -> None:
        """Zoom the photo around a point, given in fractions of its sides."""
        self.zoom = min(max(zoom, 1.0), 16.0)
        self.centre = centre if self.zoom > 1 else MIDDLE
        self._want()
        if self.follower is not None:
            self.follower.look_at(zoom, centre)

    def part(self) -> str:
        """Return the name of the visible part of the photo (`frn.images.boxes`), or of its file if all is visible."""
        if self.picture is None or self.zoom <= 1 or self.picture.view == WHOLE:
            return str(split_box(self._path)[0])
        return self._named(self.picture, self.picture.view)

    def _named(self, picture: Picture, view: Sequence[float]) -> str:
        """Return the name of a part of the photo: left, top, right, bottom in fractions of its sides."""
        file, box = split_box(self._path)
        left, top, right, bottom = (round(share * side) for share, side in zip(view, picture.photo * 2, strict=True))
        start = (box.left, box.top) if box else (0, 0)
        seen = Box(start[0] + left, start[1] + top, max(right - left, 1), max(bottom - top, 1))
        return box_name(str(file), seen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable panning if the whole photo is in view, which leaves the keys to others."""
        return action != "pan" or self.zoom > 1

    def action_pan(self, x: int, y: int) -> None:
        # Fraction of the view that a key pans by
        across, down = (
            min(max(at + step * 0.25 / self.zoom, 0), 1) for at, step in zip(self.centre, (x, y), strict=True)
        )
        self.look_at(self.zoom, (across, down))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self.can_focus and self.picture is not None and event.button == 1:
            self.capture_mouse()
            at = self._cell(self.picture, event)
            self._drawn = at, at

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._drawn is not None and self.picture is not None:
            self._drawn = self._drawn[0], self._cell(self.picture, event)
            self.refresh()

    def on_mouse_up(self) -> None:
        self.release_mouse()
        if self._drawn is None or self.picture is None:
            return
        left, top, right, bottom = _corners(*self._drawn)
        self._drawn = None
        self.refresh()
        if left == right or top == bottom:  # a click
            return
        x, y, end_x, end_y = self.picture.view
        across, down = (end_x - x) / self.picture.columns, (end_y - y) / self.picture.rows
        view = x + left * across, y + top * down, x + (right + 1) * across, y + (bottom + 1) * down
        self.post_message(self.Drawn(self._named(self.picture, view)))

    def _cell(self, picture: Picture, event: events.MouseEvent) -> Offset:
        x, y = event.offset - margins(picture, self.size)
        return Offset(min(max(x, 0), picture.columns - 1), min(max(y, 0), picture.rows - 1))

    def _with_frame(self, strip: Strip, row: int, place: Offset, corners: Corners, style: Style, mark: Mark) -> Strip:
        """Draw the part of a row of the picture, which starts at `place`, that belongs to a frame."""
        left, top, right, bottom = corners
        if left == right or not top <= row <= bottom:
            return strip
        is_edge, width = row in (top, bottom), right - left - 1
        if not (mark.is_whole or is_edge):
            return strip
        line = f"+{mark.text * (row == top):─<{width}.{width}}+" if is_edge else ""
        ends = (
            (line[: len(mark.text) * (row == top) + 2], line[-2:])
            if not mark.is_whole
            else (line, "")
            if line
            else ("│", "│")
        )
        start, end = place.x + left, place.x + right + 1
        inner = strip.crop(start + len(ends[0]), end - len(ends[1]))
        drawn = [Strip([Segment(text, style)]) for text in ends]
        return Strip.join([strip.crop(0, start), drawn[0], inner, drawn[1], strip.crop(end)])

    def mark(self, marks: Sequence[Mark]) -> None:
        """Frame parts of the photo; later ones cover earlier ones."""
        if list(marks) != self.marks:
            self.marks = list(marks)
            self.refresh()

    def _corners_of(self, picture: Picture, mark: Mark) -> Corners:
        """Return the cells at the corners of a frame: left, top, right and bottom."""
        left, top, right, bottom = picture.crop
        x, y, width, height = mark.box
        if mark.in_pixels:
            left, top, right, bottom = picture.whole
            x, y, width, height = (edge / side for edge, side in zip(mark.box, picture.photo * 2, strict=True))
        across = [picture.columns * (left + at * (right - left)) for at in (x, x + width)]
        down = [picture.rows * (top + at * (bottom - top)) for at in (y, y + height)]
        corners = (round(across[0]), round(down[0]), round(across[1]) - 1, round(down[1]) - 1)
        last = (picture.columns - 1, picture.rows - 1) * 2
        first, upper, end, lower = (min(max(at, 0), most) for at, most in zip(corners, last, strict=True))
        return first, upper, end, lower

    def fraction_at(self, offset: Offset) -> tuple[float, float] | None:
        """Return the point of the network's crop, in fractions of its sides, at a place on the screen."""
        if self.picture is None or not self.region.contains_point(offset):
            return None
        x, y = offset - self.region.offset - margins(self.picture, self.size)
        left, top, right, bottom = self.picture.crop
        across = ((x + 0.5) / self.picture.columns - left) / (right - left)
        down = ((y + 0.5) / self.picture.rows - top) / (bottom - top)
        return (across, down) if 0 <= across < 1 and 0 <= down < 1 else None

    def on_resize(self, _: events.Resize) -> None:
        self._want()

    def watch_mode(self) -> None:
        self._want()

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        base = self.visual_style.rich_style
        if self.picture is not None and self.mode != "none":
            strip = Strip(picture_line(self.picture, y, self.size, base), width)
            place = margins(self.picture, self.size)
            for mark in self.marks:
                style = self.get_visual_style(f"preview--{mark.kind}").rich_style
                corners = self._corners_of(self.picture, mark)
                strip = self._with_frame(strip, y - place.y, place, corners, style, mark)
            if self._drawn is not None:
                strip = self._with_frame(strip, y - place.y, place, _corners(*self._drawn), base, Mark(WHOLE))
            return strip
        style = self.get_visual_style("preview--empty").rich_style
        text = "images are off" if self._path and self.mode == "none" else self.empty_text
        lines = [part for line in text.splitlines() for part in wrap(line, max(width, 1)) or [""]][:height]
        row = y - (height - len(lines)) // 2
        shown = display_name(lines[row], width).center(width) if 0 <= row < len(lines) else ""
        return Strip([Segment(shown, style)]).adjust_cell_length(width, base)

    def _want(self) -> None:
        """Request an image once for several changes in a row."""
        if not self.wanting:
            self.wanting = True
            self.call_after_refresh(self._ask)

    def _ask(self) -> None:
        self.wanting = False
        request = self.request
        if request != self.wanted:
            self.wanted = request
            self.app.post_message(PicturesWanted(self, [] if request is None else [request], self.provide))


def _corners(one: Offset, other: Offset) -> Corners:
    """Return left, top, right and bottom of the cells between two corners, these included."""
    (left, right), (top, bottom) = sorted((one.x, other.x)), sorted((one.y, other.y))
    return left, top, right, bottom
