"""Base of widgets with a part that is dragged with the mouse, such as the mark of a scale."""

from textual import events
from textual.widget import Widget


class Dragging(Widget):
    """Follows the mouse from a press on a part that `grips` accepts until release."""

    ALLOW_SELECT = False
    _dragging = False

    def grips(self, event: events.MouseDown) -> bool:
        """Return whether the part under the mouse can be dragged."""
        raise NotImplementedError

    def drag(self, event: events.MouseEvent, *, released: bool) -> None:
        """Follow the mouse; `released` is True at the end."""
        raise NotImplementedError

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self.grips(event):
            self._dragging = True
            self.capture_mouse()
            self.drag(event, released=False)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self.drag(event, released=False)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragging:
            self._dragging = False
            self.release_mouse()
            self.drag(event, released=True)
