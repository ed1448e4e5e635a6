"""The line between two panes, to be dragged."""

from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget


class Divider(Widget):
    """Reports its new position."""

    ALLOW_SELECT = False
    _dragging = False

    @dataclass
    class Dragged(Message):
        """It should lie at this column of the screen."""

        x: int

    def render_line(self, y: int) -> Strip:
        grip = "⋮" if y == self.size.height // 2 else " "
        return Strip([Segment(grip, self.visual_style.rich_style)], 1)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self._dragging = True
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self.post_message(self.Dragged(event.screen_x))

    def on_mouse_up(self, _: events.MouseUp) -> None:
        self._dragging = False
        self.release_mouse()
