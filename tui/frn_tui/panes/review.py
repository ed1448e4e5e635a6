"""Review of all results in a grid or table, with bulk labels and the histogram for the threshold."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from frn.inference.session import Support
from frn_tui.dialogs.dialogs import AskText, Choose, Dialog, Page
from frn_tui.document.queries import best_score
from frn_tui.document.review_state import KINDS, ORDERS, Reviewed, examples, margin, rival, summary
from frn_tui.panes.large import LargeView
from frn_tui.panes.verdicts import ThresholdKeys, Verdicts
from frn_tui.settings.keys import shown as shown_keys
from frn_tui.terminal.text import class_keys, count_of, display_name, percent
from frn_tui.widgets.gallery.gallery import Gallery, GalleryItem
from frn_tui.widgets.histogram import Histogram
from frn_tui.widgets.jobs import JobLine

SIGNS = {True: "●", False: "○"}
"""Signs of photos that were seen, and that were not; one that a person judged has a ◆. (✓ is one that is selected.)"""
COLUMNS = ("says", "prob.", "expl.", "lead", "rival", "nearest example")
WIDE = 100
"""Width in cells from which the table shows the nearest example."""
TALL = 30
"""Rows from which on the histogram is shown."""


class Review(ThresholdKeys, Dialog[str | None]):
    """Screen of all results; returns the path of the photo to show."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back: from the large photo, from a selection, to the workspace"),
        Binding("enter", "show", "Large, with error map and nearest example; then to the workspace"),
        Binding("j,down,right,l,full_stop", "go(1)", "Next photo"),
        Binding("k,up,left,h,comma", "go(-1)", "Photo before"),
        *(Binding(str(n), f"number({n})", f"It is class {n}") for n in range(1, 10)),
        Binding("m", "move", "It is of a class by name: also beyond nine"),
        Binding("y", "right", "Right: keep it as an example"),
        Binding("x", "none_of_these", "None of these"),
        Binding("d,delete", "drop", "Drop the answer; the photo stays"),
        Binding("u", "undo", "Undo"),
        Binding("ctrl+r", "redo", "Redo"),
        Binding("s", "order", "Order"),
        Binding("f", "kind", "Only some"),
        Binding("c", "class", "Only those that say a class"),
        Binding("slash", "find", "Find in names and verdicts"),
        Binding("g", "view", "Grid or table"),
        Binding("G", "histogram", "Histogram: show or fold"),
        Binding("left_curly_bracket", "tiles(-1)", "Smaller photos"),
        Binding("right_curly_bracket", "tiles(1)", "Larger photos"),
        Binding("minus", "threshold(-0.01)", "Threshold down"),
        Binding("plus,equals_sign", "threshold(0.01)", "Threshold up"),
        Binding("percent_sign", "type_threshold", "Threshold by number"),
        Binding("0", "calibrate", "Threshold from the examples"),
        Binding("e", "sort_photos", "Sort the photos into folders"),
        Binding("w", "write", "Write the answers to a file"),
        Binding("p", "ask", "Ask about more photos"),
        Binding("question_mark,f1", "help", "All keys"),
    ]

    def __init__(self, verdicts: Verdicts, *, view: str = "grid") -> None:
        super().__init__()
        self.verdicts, self.context = verdicts, verdicts.context
        self.controller = self.context.controller
        self.gallery = Gallery(mode=self.context.mode, id="review-photos")
        self.gallery.view = view  # type: ignore[assignment]
        self.large = LargeView(self.context)
        self.histogram = Histogram(id="histogram")
        self.jobs = JobLine(id="review-jobs")
        self.items: dict[str, Reviewed] = {}
        """All results by path."""
        self._examples: dict[str, Support] = {}

    def compose(self) -> ComposeResult:
        with Vertical(id="review"):
            yield Static(id="review-title")
            yield Static(id="review-columns")
            yield self.gallery
            yield self.large
            yield Static(id="review-detail")
            yield self.histogram
            yield Static(id="review-keys")
            yield self.jobs

    def begin(self) -> None:
        self.context.watchers.append(self.show)
        self.context.lines.append(self.jobs)
        self.histogram.display = self.size.height >= TALL
        self.show()
        shown = self.controller.query.answer
        self._go_to(shown["path"] if shown else "")
        self.gallery.focus()

    def on_unmount(self) -> None:
        if self.show in self.context.watchers:
            self.context.watchers.remove(self.show)
            self.context.lines.remove(self.jobs)

    def on_resize(self, event: events.Resize) -> None:
        if self.begun:
            self.histogram.display = event.size.height >= TALL
            self.call_after_refresh(self.show)

    @property
    def is_large(self) -> bool:
        return self.has_class("-large")

    def show(self) -> None:
        """Redraw everything."""
        if not self.begun or not self.is_attached:
            return
        items = self.controller.reviewed()
        self.items = {item.path: item for item in items}
        self._examples = examples(self.controller.session.state)
        arrangement = self.controller.arrangement
        chosen = [self.items[path] for path in arrangement.paths]
        self.gallery.empty_text = f"no answers match: {arrangement.words}   f: only some   c: class   /: find"
        self.gallery.set_items([self._tile(item) for item in chosen])
        title = f"Answers · {len(chosen)} of {len(items)} · {display_name(arrangement.words, 40)} · {summary(items)}"
        self._update("title", title)
        self._update("columns", self._line("", *COLUMNS))
        self.query_one("#review-columns").display = self.gallery.view == "list" and not self.is_large
        known = [share for report in self.controller.reports.values() for share in report["explained"].values()]
        threshold = self.verdicts.threshold  # shift by each photo's threshold: unknown ones lie below the mark
        asked = [
            best["explained"] + threshold - item.answer.get("threshold", threshold)
            for item in items
            if (best := best_score(item.answer))
        ]
        self.histogram.show(known, asked, threshold)
        self.follow_cursor()

    def _update(self, name: str, text: str) -> None:
        self.query_one(f"#review-{name}", Static).update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _tile(self, item: Reviewed) -> GalleryItem:
        sign = "◆" if item.label is not None else SIGNS[item.is_seen]
        key, mark = item.answer.get("key"), "" if item.is_readable else "broken"
        if self.gallery.view == "list":
            name = "/".join(item.path.split("/")[-2:])
            return GalleryItem(item.path, name, key, mark, self._line(sign, *self._cells(item)))  # type: ignore[arg-type]
        return GalleryItem(item.path, f"{sign} {item.words}", key, mark)  # type: ignore[arg-type]

    def _cells(self, item: Reviewed) -> tuple[str, ...]:
        if best_score(item.answer) is None:
            return (item.said, "", "", "", "", "")
        share = percent(item.score["explained"]) if item.score else ""
        numbers = item.certainty, share, f"{margin(item.answer):.2f}"
        return (item.said, *numbers, rival(item.answer, self.controller.names), self._nearest_name(item))

    def _nearest_name(self, item: Reviewed) -> str:
        near = self._examples.get(item.answer.get("nearest", ""))
        return near.path.name if near else ""

    def _line(self, sign: str, *cells: str) -> str:
        """Return a row of the table that fits beside the name."""
        room = max(self.gallery.size.width // 2 - 2, 20)
        numbers = f"{cells[1]:>5} {cells[2]:>5}" + (f" {cells[3]:>5}" if room >= 40 else "")
        named = room - 2 - cell_len(numbers)
        texts = [cells[0], *([cells[4]] if room >= 34 else []), *([cells[5]] if room >= WIDE // 2 else [])]
        each = max(named // len(texts) - 1, 4)
        shown = [set_cell_size(display_name(text, each), each) for text in texts]
        return " ".join([sign or " ", shown[0], numbers, *shown[1:]])

    @on(Gallery.SelectionChanged)
    @on(Gallery.Moved)
    def follow_cursor(self) -> None:
        """Say all of the answer under the cursor, and what keys would do now."""
        cursor = self.gallery.cursor_item
        item = self.items.get(cursor.path) if cursor else None
        near = self._examples.get(item.answer.get("nearest", "")) if item else None
        self._update(
            "detail",
            described(item, self.controller.names, f"{near.path.parent.name}/{near.path.name}" if near else "")
            if item
            else "",
        )
        count = len(self.gallery.selection)
        whose = f"{count} selected: " if count else ""
        enter = "j k others  enter workspace" if self.is_large else "enter large"
        keys = f"y right  x none  d drop  u undo  {enter}  ? keys"
        numbers = class_keys(self.controller.names.values(), self.size.width - len(keys) - len(whose) - 4)
        self._update("keys", f"{whose}{numbers}   {keys}")
        if self.is_large:
            self.large.show(item.answer if item else None, str(near.path) if near else "")
            shown = self.controller.query.answer
            if item is not None and (shown is None or shown["path"] != item.path):
                self.context.start(self.controller.show, item.path, group="step")

    @property
    def selected(self) -> list[Reviewed]:
        """Return the selected results, or the one under the cursor."""
        cursor = self.gallery.cursor_item
        paths = self.gallery.selection or ([cursor.path] if cursor else [])
        return [self.items[path] for path in paths if path in self.items]

    def _go_to(self, path: str) -> None:
        paths = self.controller.arrangement.paths
        self.gallery.cursor = paths.index(path) if path in paths else 0

    def _arrange(self, **chosen: str) -> None:
        arrangement = self.controller.arrangement
        arrangement.choose(self.controller.reviewed(), **chosen)
        self.show()
        self.gallery.cursor = 0

    @on(Gallery.Opened)
    def open(self, event: Gallery.Opened) -> None:
        event.stop()
        self._enlarge(True)

    def _enlarge(self, large: bool) -> None:
        self.set_class(large, "-large")
        self.show()
        if not large:
            self.gallery.focus()

    def action_show(self) -> None:
        """From the large photo to the workspace; in the grid, the gallery takes the key before."""
        if self.is_large and (item := self.gallery.cursor_item) is not None:
            self.dismiss(item.path)

    def action_go(self, step: int) -> None:
        self.gallery.cursor += step

    def action_leave(self) -> None:
        if self.is_large:
            self._enlarge(False)
        elif self.begun and (self.gallery.selection or self.gallery.selects):
            self.gallery.select(())
        else:
            self.dismiss(None)

    def action_help(self) -> None:
        table = Table(box=None, pad_edge=False, show_header=False)
        for binding in self.BINDINGS:
            assert isinstance(binding, Binding)
            if not binding.key.isdigit() or binding.key == "0":
                table.add_row(Text(shown_keys(binding.key), style="bold", no_wrap=True), Text(binding.description))
        table.add_row(Text("1-9", style="bold"), "It is class N: the selected photos, or the one under the cursor")
        table.add_row(Text("space  v  ctrl+a", style="bold"), "Select: one, from here on, all")
        self.app.push_screen(Page("Keys of the review", table))

    def action_histogram(self) -> None:
        self.histogram.display = not self.histogram.display

    def action_view(self) -> None:
        self.gallery.view = "list" if self.gallery.view == "grid" else "grid"
        self.show()

    def action_tiles(self, step: int) -> None:
        self.gallery.action_tiles(step)

    def action_order(self) -> None:
        orders = list(ORDERS)
        self._arrange(order=orders[(orders.index(self.controller.arrangement.order) + 1) % len(orders)])

    def action_kind(self) -> None:
        items = list(self.items.values())
        kinds = list(KINDS)
        options = [f"{kind}  {sum(map(KINDS[kind], items))}" for kind in kinds]
        self.context.ask(Choose("Only answers that are", options), lambda index: self._arrange(kind=kinds[index]))

    def action_class(self) -> None:
        said = sorted({item.said for item in self.items.values()}, key=str.casefold)
        options = ["any", *(f"{name}  {sum(item.said == name for item in self.items.values())}" for name in said)]
        chosen = ["", *said]
        self.context.ask(Choose("Only answers that say", options), lambda index: self._arrange(said=chosen[index]))

    def action_find(self) -> None:
        dialog = AskText("Only answers with this in the file or the class", self.controller.arrangement.wanted)
        self.context.ask(dialog, lambda text: self._arrange(wanted=text.strip()))

    def action_number(self, number: int) -> None:
        classes = self.controller.session.state.classes
        if number > len(classes):
            self.context.say(f"there is no class number {number}")
        else:
            self._label(self.selected, classes[number - 1].id)

    def action_move(self) -> None:
        self.verdicts.choose_class(lambda entry: self._label(self.selected, entry.id))

    def _label(self, items: Sequence[Reviewed], class_id: int) -> None:
        self.verdicts.label([item.answer for item in items], class_id)
        self._advance(items)

    def _advance(self, items: Sequence[Reviewed]) -> None:
        """Clear the selection, or move to the next photo."""
        if self.gallery.selection:
            self.gallery.select(())
        elif items:
            self.gallery.cursor += 1

    def action_right(self) -> None:
        items = self.selected
        self.verdicts.right([item.answer for item in items])
        self._advance(items)

    def action_none_of_these(self) -> None:
        items = self.selected
        self.verdicts.set_aside([item.answer for item in items])
        self._advance(items)

    def action_drop(self) -> None:
        """Remove results from the list; the photos stay, also as examples."""
        paths = [item.path for item in self.selected]
        if paths:
            self.context.edit(lambda session: session.drop(paths), f"dropped {count_of(len(paths), 'answer')}")
            self.gallery.select(())
            self.controller.listener()

    def action_undo(self) -> None:
        self.context.say(self.context.step_back())

    def action_redo(self) -> None:
        self.context.say(self.context.step_back(undo=False))

    @on(Histogram.Moved)
    def move_threshold(self, event: Histogram.Moved) -> None:
        self.verdicts.set_threshold(event.value)

    def action_sort_photos(self) -> None:
        self.verdicts.sort_into_folders([self.items[path] for path in self.controller.arrangement.paths])

    def action_write(self) -> None:
        self.verdicts.write([self.items[path] for path in self.controller.arrangement.paths])

    def action_ask(self) -> None:
        self.verdicts.ask_more()


def described(item: Reviewed, names: dict[int, str], example: str) -> str:
    """Return a result in one line: prediction, rival, nearest example, label and first prediction."""
    best = best_score(item.answer)
    name = display_name(item.path.rpartition("/")[2], 30)
    if best is None:
        return f"{name}: {display_name(item.answer.get('reason', ''))}"
    probability, share = best["probability"], percent(best["explained"])
    parts = [
        f"{name}: {display_name(item.verdict, 24)}{'' if item.is_unknown else f' {probability:.2f}'}, {share} explained"
    ]
    if other := rival(item.answer, names):
        parts.append(f"rival {display_name(other, 24)}")
    if example:
        parts.append(f"nearest example {display_name(example, 24)}")
    if item.label is not None:
        parts.append(f"you said {display_name(item.label, 24)}")
    if item.is_changed and item.first is not None:
        parts.append(f"at first {display_name(item.first, 24)}")
    return " · ".join(parts)
