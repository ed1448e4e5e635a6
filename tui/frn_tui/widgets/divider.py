"""Draggable line between two panes."""

from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from frn_tui.widgets.dragging import Dragging


class Divider(Dragging):
    """Vertical line that reports where it is dragged."""

    @dataclass
    class Dragged(Message):
        """The line was dragged to this column of the screen."""

        x: int

    def render_line(self, y: int) -> Strip:
        grip = "⋮" if y == self.size.height // 2 else " "
        return Strip([Segment(grip, self.visual_style.rich_style)], 1)

    def grips(self, event: events.MouseDown) -> bool:
        return True

    def drag(self, event: events.MouseEvent, *, released: bool) -> None:
        self.post_message(self.Dragged(event.screen_x))
