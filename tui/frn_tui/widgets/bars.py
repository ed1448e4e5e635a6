"""Scores of the classes for a photo, and histograms over many photos: both with the threshold for unknown photos."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from frn_tui.terminal.text import bar, display_name, percent

DRAWN_GAUGE = 4  # minimum height in lines at which the gauge is drawn; below it, only its text is shown
LABEL = 9  # width in cells of the labels at the left of a histogram
LEVELS = " ▁▂▃▄▅▆▇█"
Part = tuple[str, str]  # text with its style's component class; empty: the style of the widget


class Scale(Widget):
    """Lines of text with a scale, on which a click sets the threshold."""

    ALLOW_SELECT = False

    @dataclass
    class ThresholdChosen(Message):
        """The threshold was set with the mouse, to a value in [0, 1]."""

        value: float

    _threshold = 0.0

    def lines(self, width: int, height: int) -> list[list[Part]]:
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        lines = self.lines(*self.size)
        parts = lines[y] if y < len(lines) else []
        rendered = [Segment(text, self.get_visual_style(*filter(None, [part])).rich_style) for text, part in parts]
        return Strip(rendered).adjust_cell_length(self.size.width, self.visual_style.rich_style)


@dataclass(frozen=True, slots=True)
class BarRow:
    name: str
    probability: float
    number: int | None = None  # number key that selects the class, 1 to 9
    class_id: int = 0


class Bars(Scale):
    """The prediction, a bar per class, and the gauge that separates known from unknown."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"bars--{part}" for part in ("verdict", "unknown", "bar", "muted", "mark")}

    @dataclass
    class Clicked(Message):
        class_id: int
        twice: bool

    _rows: tuple[BarRow, ...] = ()
    _known: float | None = None
    _unknown = False

    def show(self, rows: Sequence[BarRow], known: float | None, threshold: float, unknown: bool) -> None:
        """Replace everything; the most likely row comes first. `known` is None if it cannot be known."""
        fewer_or_more = len(rows) != len(self._rows)
        self._rows, self._known, self._threshold, self._unknown = tuple(rows), known, threshold, unknown
        self.refresh(layout=fewer_or_more and self.styles.auto_dimensions)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows) + 3 if self._rows else 1

    def lines(self, width: int, height: int) -> list[list[Part]]:
        if not self._rows:
            return []
        shown = self._rows[: self._fitting(height)]
        lines, gauge = [self._verdict(width), *self._bars(shown, width)], self._gauge(width)
        gauge = gauge if height >= DRAWN_GAUGE else gauge[1:]
        if len(shown) < len(self._rows) and len(lines) + len(gauge) < height:
            lines.append([(f"… and {len(self._rows) - len(shown)} more", "bars--muted")])
        return lines + gauge

    def _fitting(self, height: int) -> int:
        """Return how many bars fit between the prediction and the gauge."""
        room = max(height - (3 if height >= DRAWN_GAUGE else 2), 0)
        return len(self._rows) if len(self._rows) <= room else max(room - 1, min(room, 1))

    def _verdict(self, width: int) -> list[Part]:
        best = self._rows[0]
        if self._unknown:
            return [("▌ unknown  ", "bars--unknown"), (f"({display_name(best.name, width - 14)}?)", "bars--muted")]
        return [(f"▌ {display_name(best.name, width - 8)}  ", "bars--verdict"), (f"{best.probability:.2f}", "")]

    def _bars(self, rows: Sequence[BarRow], width: int) -> list[list[Part]]:
        room = width - 8  # width of key, spaces and probability
        longest = max((cell_len(display_name(row.name)) for row in rows), default=0)
        named = max(min(longest, max(3 * room // 5, 8), room), 0)
        lines = []
        for row in rows:
            name = display_name(row.name, named)
            line = [
                (f"{row.number or ' '} ", "bars--muted"),
                (name + " " * (named - cell_len(name) + 1), ""),
                (bar(row.probability, max(room - named, 0)), "bars--bar"),
                (f" {row.probability:.2f}", ""),
            ]
            lines.append(line)
        return lines

    def _gauge(self, width: int) -> list[list[Part]]:
        """Return the scale from 0 to 100% with its mark, and the same as text."""
        if self._known is None:
            return [[], [("unknown photos need two photos of a class", "bars--muted")]]
        mark = round(min(max(self._threshold, 0.0), 1.0) * (width - 1))
        scale = bar(self._known, width, rest="─")
        line = [*_scale(scale[:mark]), ("┆", "bars--mark"), *_scale(scale[mark + 1 :])]
        differ = self._known != self._threshold and percent(self._known) == percent(self._threshold)
        known, limit = (percent(share, int(differ)) for share in (self._known, self._threshold))  # do not look equal
        words = f"{known} known, unknown below {limit}"
        return [line, [(words if len(words) <= width else f"{known}, unknown < {limit}", "bars--muted")]]

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        lines, shown = self.lines(*self.size), self._fitting(self.size.height)
        if 1 <= offset.y <= shown:
            self.post_message(self.Clicked(self._rows[offset.y - 1].class_id, event.chain > 1))
        elif self.size.height >= DRAWN_GAUGE and offset.y == len(lines) - 2:
            self.post_message(self.ThresholdChosen(offset.x / max(self.size.width - 1, 1)))


def _scale(text: str) -> list[Part]:
    """Split a piece of the gauge into the known part and the rest."""
    full = text.rstrip("─")
    return [(full, "bars--bar"), (text[len(full) :], "bars--muted")]


class Histogram(Scale):
    """Histograms of how well examples and queries are known, on one scale with the threshold."""

    DEFAULT_CSS = """
    Histogram {
        height: 4; background: $surface; color: $foreground;
        & > .histogram--known { color: $success; }
        & > .histogram--asked { color: $primary; }
        & > .histogram--below { color: $text-warning; }
        & > .histogram--mark { color: $text-warning; text-style: bold; }
        & > .histogram--text { color: $text-muted; }
        &:light > .histogram--known { color: #1c5a30; }
        &:light > .histogram--below, &:light > .histogram--mark { color: #7a4300; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"histogram--{part}" for part in ("known", "asked", "below", "mark", "text")
    }
    _known: tuple[float, ...] = ()
    _asked: tuple[float, ...] = ()
    _expected = ""

    def show(self, known: Sequence[float], queries: Sequence[float], threshold: float, expected: str = "") -> None:
        """Show `known` of examples and queries, the threshold, and its expected error rates."""
        self._known, self._asked, self._threshold, self._expected = tuple(known), tuple(queries), threshold, expected
        self.refresh()

    def lines(self, width: int, height: int) -> list[list[Part]]:
        bins, rows = width - LABEL, max((height - 2) // 2, 1)
        if bins < 10 or not (self._known or self._asked):
            return [[(self._expected or "no photo was classified", "histogram--text")]]
        low, high = self._range()
        mark = min(max(floor((self._threshold - low) / (high - low) * bins), 0), bins - 1)
        text_style, mark_style = "histogram--text", "histogram--mark"
        lines = []
        for name, values, part in (("examples", self._known, "known"), ("photos", self._asked, "asked")):
            # Maximum number of bins of a histogram; with more, each would have few photos
            for row, text in enumerate(columns(values, low, high, bins, rows, -(-bins // 44))):
                label = name if row == rows - 1 else ""
                colours = (text[:mark], "histogram--below"), (text[mark:], f"histogram--{part}")
                lines.append([(f"{label:<{LABEL}}", text_style), *colours])
        axis = f"{percent(low)}{percent(high):>{bins - len(percent(low))}}"
        below, above = f"{'':<{LABEL}}{axis[:mark]}", axis[mark + 1 :]
        lines.append([(below, text_style), ("┆", mark_style), (above, text_style)])
        return [*lines, [(self._words(), mark_style)]]

    def _range(self) -> tuple[float, float]:
        """Return the range, in steps of 5%, that contains all values and the threshold."""
        values = (*self._known, *self._asked, min(max(self._threshold, 0.0), 1.0))
        low, high = floor(20 * min(values)) / 20, ceil(20 * max(values) + 1e-9) / 20
        return low, max(high, low + 0.05)

    def _words(self) -> str:
        below, known_below = (sum(value < self._threshold for value in some) for some in (self._asked, self._known))
        return (
            f"unknown below {percent(self._threshold, 1)}: "
            f"{below} of {len(self._asked)} photos, "
            f"{known_below} of {len(self._known)} examples{' · ' * bool(self._expected)}{self._expected}"
        )

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.x >= LABEL and (self._known or self._asked):
            low, high = self._range()
            share = low + (high - low) * (offset.x - LABEL) / max(self.size.width - LABEL, 1)
            self.post_message(self.ThresholdChosen(round(min(max(share, 0.0), 1.0), 3)))


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
