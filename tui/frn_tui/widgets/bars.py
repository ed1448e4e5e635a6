"""The score of each class for a photo, and whether any class explains enough of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from frn_tui.terminal.text import bar, display_name, percent
from frn_tui.widgets.dragging import Dragging

DRAWN_GAUGE = 4
"""Minimum height in lines at which the gauge is drawn; below it, only its text is shown."""

Part = tuple[str, str]
"""Text with its style's component class."""


@dataclass(frozen=True, slots=True)
class BarRow:
    """Scores of one class for a photo."""

    name: str
    probability: float
    explained: float
    """Fraction of the photo that the class can reconstruct, in [0, 1]."""
    number: int | None = None
    """Number key that selects the class, 1 to 9."""
    class_id: int = 0


class Bars(Dragging):
    """The prediction, a bar per class, and the gauge that separates known from unknown."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"bars--{part}" for part in ("text", "verdict", "unknown", "bar", "muted", "mark")
    }

    @dataclass
    class ThresholdDragged(Message):
        """The threshold mark of the gauge was moved with the mouse."""

        value: float
        """Value in [0, 1]."""
        released: bool
        """False while the button is held and more messages will follow."""

    @dataclass
    class Clicked(Message):
        """A class's bar was clicked."""

        class_id: int
        twice: bool

    _rows: tuple[BarRow, ...] = ()
    _threshold, _unknown = 0.0, False

    def show(self, rows: Sequence[BarRow], threshold: float, unknown: bool) -> None:
        """Replace everything; the most likely row comes first."""
        fewer_or_more = len(rows) != len(self._rows)
        self._rows, self._threshold, self._unknown = tuple(rows), threshold, unknown
        self.refresh(layout=fewer_or_more and self.styles.auto_dimensions)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows) + 3 if self._rows else 1

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        lines = self._lines(width, height)
        parts = lines[y] if y < len(lines) else []
        base = self.visual_style.rich_style
        rendered = [Segment(text, self.get_visual_style(component).rich_style) for text, component in parts]
        return Strip(rendered).adjust_cell_length(width, base)

    def _lines(self, width: int, height: int) -> list[list[Part]]:
        if not self._rows:
            return []
        gauge = self._gauge(width)[0 if height >= DRAWN_GAUGE else 1 :]
        room = max(height - 1 - len(gauge), 0)
        shown = self._rows[: self._fitting(room)]
        lines = [self._verdict(width), *self._bars(shown, width)]
        if len(shown) < min(len(self._rows), room):
            lines.append([(f"… and {len(self._rows) - len(shown)} more", "bars--muted")])
        return lines + gauge

    def _fitting(self, room: int) -> int:
        """Return how many bars fit into this many lines."""
        return len(self._rows) if len(self._rows) <= room else max(room - 1, min(room, 1))

    def _verdict(self, width: int) -> list[Part]:
        best = self._rows[0]
        if self._unknown:
            return [("▌ unknown  ", "bars--unknown"), (f"({display_name(best.name, width - 14)}?)", "bars--muted")]
        return [
            (f"▌ {display_name(best.name, width - 8)}  ", "bars--verdict"),
            (f"{best.probability:.2f}", "bars--text"),
        ]

    def _bars(self, rows: Sequence[BarRow], width: int) -> list[list[Part]]:
        detailed = width >= 34
        room = width - 8 - (6 if detailed else 0)  # width of key, spaces and probability, then of the fraction
        longest = max((cell_len(display_name(row.name)) for row in rows), default=0)
        named = max(min(longest, max(3 * room // 5, 8), room), 0)
        rendered = max(room - named, 0)
        lines = []
        for row in rows:
            name = display_name(row.name, named)
            line = [
                (f"{row.number or ' '} ", "bars--muted"),
                (name + " " * (named - cell_len(name) + 1), "bars--text"),
                (bar(row.probability, rendered), "bars--bar"),
                (f" {row.probability:.2f}", "bars--text"),
            ]
            if detailed:
                line.append((f"  {percent(row.explained):>4}", "bars--muted"))
            lines.append(line)
        return lines

    def _gauge(self, width: int) -> list[list[Part]]:
        """Return the scale from 0 to 100 % with its mark, and the same as text."""
        best = max(row.explained for row in self._rows)
        mark = round(min(max(self._threshold, 0.0), 1.0) * (width - 1))
        scale = bar(best, width, rest="─")
        line = [*_scale(scale[:mark]), ("┆", "bars--mark"), *_scale(scale[mark + 1 :])]
        share, limit = _told_apart(best, self._threshold)
        words = f"{share} explained, unknown below {limit}"
        if len(words) > width:
            words = f"{share}, unknown < {limit}"
        return [line, [(words, "bars--muted")]]

    def _gauge_line(self) -> int:
        """Return the line of the gauge, or -1 if there is no room for it."""
        if not self._rows or self.size.height < DRAWN_GAUGE:
            return -1
        return len(self._lines(*self.size)) - 2

    def drag(self, event: events.MouseEvent, *, released: bool) -> None:
        x = event.get_content_offset_capture(self).x
        self._threshold = min(max(x / max(self.size.width - 1, 1), 0.0), 1.0)
        self.refresh()
        self.post_message(self.ThresholdDragged(self._threshold, released))

    def grips(self, event: events.MouseDown) -> bool:
        offset = event.get_content_offset(self)
        return offset is not None and offset.y == self._gauge_line()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        below = 2 if self.size.height >= DRAWN_GAUGE else 1
        if offset is not None and 1 <= offset.y <= self._fitting(max(self.size.height - 1 - below, 0)):
            self.post_message(self.Clicked(self._rows[offset.y - 1].class_id, event.chain > 1))


def _scale(text: str) -> list[Part]:
    """Split a piece of the gauge into the explained part and the rest."""
    full = text.rstrip("─")
    return [(full, "bars--bar"), (text[len(full) :], "bars--muted")]


def _told_apart(share: float, limit: float) -> tuple[str, str]:
    """Return both in percent, with a decimal if they would otherwise look equal."""
    decimals = int(share != limit and percent(share) == percent(limit))
    return percent(share, decimals), percent(limit, decimals)
