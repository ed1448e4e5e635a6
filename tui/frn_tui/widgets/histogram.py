"""Histograms of how much the classes explain of their own examples and of queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from frn_tui.terminal.text import percent
from frn_tui.widgets.dragging import Dragging

BINS = 44
"""Maximum number of bins; with more, each would have few photos."""
LABEL = 9
"""Width in cells of the labels at the left."""
LEVELS = " ▁▂▃▄▅▆▇█"
Part = tuple[str, str]
"""Text with its style's component class."""


class Histogram(Dragging):
    """Two histograms of explained fractions on one scale, with the threshold between unknown and known."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"histogram--{part}" for part in ("known", "asked", "below", "mark", "text")
    }

    @dataclass
    class Moved(Message):
        """The threshold was set with the mouse."""

        value: float
        """Value in [0, 1]."""

    _known: tuple[float, ...] = ()
    _asked: tuple[float, ...] = ()
    _threshold, _expected = 0.0, ""

    def show(self, known: Sequence[float], asked: Sequence[float], threshold: float, expected: str = "") -> None:
        """Show the explained shares of examples and queries, the threshold, and its expected error rates."""
        self._known, self._asked, self._threshold, self._expected = tuple(known), tuple(asked), threshold, expected
        self.refresh()

    def render_line(self, y: int) -> Strip:
        lines = self._lines(*self.size)
        base = self.visual_style.rich_style
        parts = lines[y] if y < len(lines) else []
        rendered = [Segment(text, self.get_visual_style(f"histogram--{part}").rich_style) for text, part in parts]
        return Strip(rendered).adjust_cell_length(self.size.width, base)

    def _lines(self, width: int, height: int) -> list[list[Part]]:
        bins, rows = width - LABEL, max((height - 2) // 2, 1)
        if bins < 10 or not (self._known or self._asked):
            return [[("no photo was classified", "text")]]
        low, high = self._scale()
        mark = min(max(floor((self._threshold - low) / (high - low) * bins), 0), bins - 1)
        lines = []
        for name, values, part in (("examples", self._known, "known"), ("photos", self._asked, "asked")):
            for row, text in enumerate(columns(values, low, high, bins, rows, -(-bins // BINS))):
                label = name if row == rows - 1 else ""
                lines.append([(f"{label:<{LABEL}}", "text"), (text[:mark], "below"), (text[mark:], part)])
        axis = f"{percent(low)}{percent(high):>{bins - len(percent(low))}}"
        lines.append([(" " * LABEL, "text"), (axis[:mark], "text"), ("┆", "mark"), (axis[mark + 1 :], "text")])
        return [*lines, [(self._words(), "mark")]]

    def _scale(self) -> tuple[float, float]:
        """Return the range, in steps of 5 %, that contains all values and the threshold."""
        values = (*self._known, *self._asked, min(max(self._threshold, 0.0), 1.0))
        low, high = floor(20 * min(values)) / 20, ceil(20 * max(values) + 1e-9) / 20
        return low, max(high, low + 0.05)

    def _words(self) -> str:
        asked = sum(value < self._threshold for value in self._asked)
        known = sum(value < self._threshold for value in self._known)
        return (
            f"unknown {'typically ' * bool(self._expected)}below {percent(self._threshold, 1)}: "
            f"{asked} of {len(self._asked)} photos, "
            f"{known} of {len(self._known)} examples{' · ' * bool(self._expected)}{self._expected}"
        )

    def drag(self, event: events.MouseEvent, *, released: bool) -> None:
        low, high = self._scale()
        bins = max(self.size.width - LABEL, 1)
        x = min(max(event.get_content_offset_capture(self).x - LABEL, 0), bins)
        self._threshold = min(max(low + (high - low) * x / bins, 0.0), 1.0)
        self.refresh()
        if released:
            self.post_message(self.Moved(round(self._threshold, 3)))

    def grips(self, event: events.MouseDown) -> bool:
        offset = event.get_content_offset(self)
        return offset is not None and offset.x >= LABEL and bool(self._known or self._asked)


def columns(values: Sequence[float], low: float, high: float, width: int, rows: int, broad: int = 1) -> list[str]:
    """Return a histogram as lines of text, top line first, in eighths of a cell; bins with any value are visible.

    `broad` is how many of the `width` cells a bin takes.
    """
    counts = [0] * -(-width // broad)
    for value in values:
        counts[min(max(floor((value - low) / (high - low) * width), 0), width - 1) // broad] += 1
    most = max([*counts, 1])
    heights = [ceil(8 * rows * counts[cell // broad] / most) for cell in range(width)]
    return ["".join(LEVELS[min(max(height - 8 * row, 0), 8)] for height in heights) for row in reversed(range(rows))]
