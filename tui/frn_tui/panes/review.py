"""All answers: a grid or a table of them, labelled many at once, with the histogram that the threshold is set on."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from frn_tui.client.protocol import RenderPreview
from frn_tui.client.rendering import render
from frn_tui.dialogs.dialogs import AskText, Choose, Dialog
from frn_tui.document.queries import best_score
from frn_tui.document.review_state import KINDS, ORDERS, Reviewed, example_names, margin, nearest, rival, summary
from frn_tui.panes.verdicts import Verdicts
from frn_tui.terminal.text import display_name, percent
from frn_tui.widgets.gallery.gallery import Gallery, GalleryItem
from frn_tui.widgets.histogram import Histogram

SIGNS = {True: "●", False: "○"}
"""Signs of photos that were seen, and that were not; one that is labelled has a ✓."""
KEYS = (
    "space v ctrl+a: select   1-9 m: of class   y: right   d: drop   s: order   f: only   c: class   /: find   "
    "g: grid   { }: size   - + % 0: threshold   e: sort into folders   w: write   p: ask more   u: undo   enter: show"
    "   esc: back"
)
COLUMNS = ("says", "prob.", "expl.", "lead", "rival", "nearest example")
WIDE = 100
"""Cells from which on the table names the nearest example."""


class Review(Dialog[str | None]):
    """Gives back the path of the photo to show."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("g", "view", "Grid or table"),
        Binding("left_curly_bracket", "tiles(-1)", "Smaller photos"),
        Binding("right_curly_bracket", "tiles(1)", "Larger photos"),
        Binding("s", "order", "Order"),
        Binding("f", "kind", "Only some"),
        Binding("c", "class", "Only a class"),
        Binding("slash", "find", "Find"),
        Binding("y", "right", "Right"),
        Binding("m", "move", "Of class"),
        Binding("d,delete", "drop", "Drop"),
        Binding("u", "undo", "Undo"),
        Binding("ctrl+r", "redo", "Redo"),
        Binding("minus", "threshold(-0.01)", "Threshold down"),
        Binding("plus,equals_sign", "threshold(0.01)", "Threshold up"),
        Binding("percent_sign", "type_threshold", "Threshold"),
        Binding("0", "calibrate", "Calibrate"),
        Binding("e", "sort_photos", "Sort into folders"),
        Binding("w", "write", "Write"),
        Binding("p", "ask", "Ask more"),
        *(Binding(str(n), f"number({n})", f"Class {n}") for n in range(1, 10)),
    ]

    def __init__(self, verdicts: Verdicts, *, view: str = "grid") -> None:
        super().__init__()
        self.verdicts, self.context = verdicts, verdicts.context
        self.controller = self.context.controller
        self.gallery = Gallery(mode=self.context.mode, id="review-photos")
        self.gallery.view = view  # type: ignore[assignment]
        self.histogram = Histogram(id="histogram")
        self.items: dict[str, Reviewed] = {}
        """All answers, by path."""
        self._examples: dict[str, str] = {}
        self._wanted: list[RenderPreview] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="review"):
            yield Static(id="review-summary")
            yield Static(id="review-columns")
            yield self.gallery
            yield Static(id="review-detail")
            yield self.histogram
            yield Static(Text(KEYS), classes="hint")

    def begin(self) -> None:
        self.context.watchers.append(self.show)
        self.show()
        shown = self.controller.query.answer
        self._go_to(shown["path"] if shown else "")
        self.gallery.focus()

    def on_unmount(self) -> None:
        if self.show in self.context.watchers:
            self.context.watchers.remove(self.show)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < 30, "-short")
        if self.begun:
            self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw what is now."""
        if not self.begun or not self.is_attached:
            return
        items = self.controller.reviewed()
        self.items = {item.path: item for item in items}
        self._examples = example_names(self.controller.session.state)
        arrangement = self.controller.arrangement
        chosen = [self.items[path] for path in arrangement.paths if path in self.items]
        self.gallery.set_items([self._tile(item) for item in chosen])
        box = self.query_one("#review", Vertical)
        box.border_title = Text(f"Answers · {len(chosen)} of {len(items)} · {display_name(arrangement.words, 60)}")
        self.select()
        self.query_one("#review-summary", Static).update(Text(summary(items)))
        self.query_one("#review-columns", Static).update(Text(self._line("", *COLUMNS)))
        self.query_one("#review-columns").display = self.gallery.view == "list"
        known = [share for report in self.controller.reports.values() for share in report["explained"].values()]
        threshold = self.verdicts.threshold  # each photo's own threshold lies here: those below it are the unknown ones
        asked = [
            best["explained"] + threshold - item.answer.get("threshold", threshold)
            for item in items
            if (best := best_score(item.answer))
        ]
        self.histogram.show(known, asked, threshold)
        self._tell()

    def _tile(self, item: Reviewed) -> GalleryItem:
        sign = "✓" if item.label is not None else SIGNS[item.is_seen]
        key, mark = item.answer.get("key"), "" if item.is_readable else "broken"
        if self.gallery.view == "list":
            name = "/".join(item.path.split("/")[-2:])
            return GalleryItem(item.path, name, key, mark, self._line(sign, *self._cells(item)))  # type: ignore[arg-type]
        best = best_score(item.answer)
        sure = f" {best['probability']:.2f}" if best else ""
        return GalleryItem(item.path, f"{sign} {item.said}{sure}", key, mark)  # type: ignore[arg-type]

    def _cells(self, item: Reviewed) -> tuple[str, ...]:
        best = best_score(item.answer)
        if best is None:
            return (item.said, "", "", "", "", "")
        numbers = f"{best['probability']:.2f}", percent(best["explained"]), f"{margin(item.answer):.2f}"
        return (item.said, *numbers, rival(item.answer, self.controller.names), nearest(item.answer, self._examples))

    def _line(self, sign: str, *cells: str) -> str:
        """A row of the table, as wide as there is room for beside the name."""
        room = max(self.gallery.size.width // 2 - 2, 20)
        numbers = f"{cells[1]:>5} {cells[2]:>5}" + (f" {cells[3]:>5}" if room >= 40 else "")
        named = room - 2 - cell_len(numbers)
        texts = [cells[0], *([cells[4]] if room >= 34 else []), *([cells[5]] if room >= WIDE // 2 else [])]
        each = max(named // len(texts) - 1, 4)
        shown = [set_cell_size(display_name(text, each), each) for text in texts]
        return " ".join([sign or " ", shown[0], numbers, *shown[1:]])

    @on(Gallery.SelectionChanged)
    def select(self) -> None:
        count = len(self.gallery.selection)
        self.query_one("#review", Vertical).border_subtitle = Text(f"{count} selected" if count else "esc back")

    @on(Gallery.Moved)
    def follow_cursor(self) -> None:
        self._tell()

    def _tell(self) -> None:
        """Say all of the answer under the cursor."""
        cursor = self.gallery.cursor_item
        item = self.items.get(cursor.path) if cursor else None
        line = ""
        if item is not None:
            line = described(item, self.controller.names, nearest(item.answer, self._examples))
        self.query_one("#review-detail", Static).update(Text(line))

    @on(Gallery.Want)
    def want_pictures(self, event: Gallery.Want) -> None:
        """Newest first: who scrolls fast wants what is on the screen now."""
        event.stop()
        self._wanted = list(event.requests)
        if not any(worker.group == "thumbs" and worker.is_running for worker in self.workers):
            self._fetch()

    @work(group="thumbs", exit_on_error=False)
    async def _fetch(self) -> None:
        while self._wanted:
            request = self._wanted.pop(0)
            if picture := await render(self.controller.engine, request):
                self.gallery.provide(request, picture)

    @property
    def selected(self) -> list[Reviewed]:
        """The selected answers, or the one under the cursor."""
        cursor = self.gallery.cursor_item
        paths = self.gallery.selection or ([cursor.path] if cursor else [])
        return [self.items[path] for path in paths if path in self.items]

    def _go_to(self, path: str) -> None:
        paths = self.controller.arrangement.paths
        self.gallery.cursor = paths.index(path) if path in paths else 0

    def _arrange(self, **chosen: str) -> None:
        arrangement = self.controller.arrangement
        arrangement.choose(self.controller.reviewed(), **chosen)
        if not arrangement.paths:
            self.notify(f"no answer matches: {display_name(arrangement.words, 60)}", markup=False)
        self.show()
        self.gallery.cursor = 0

    @on(Gallery.Opened)
    def open(self, event: Gallery.Opened) -> None:
        event.stop()
        self.dismiss(event.item.path)

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
            self.notify(f"there is no class number {number}")
        else:
            self._label(self.selected, classes[number - 1].id)

    def action_move(self) -> None:
        self.verdicts.choose_class(lambda entry: self._label(self.selected, entry.id))

    def _label(self, items: Sequence[Reviewed], class_id: int) -> None:
        self.verdicts.label([item.answer for item in items], class_id)
        self._advance(items)

    def _advance(self, items: Sequence[Reviewed]) -> None:
        """Go on to the photo after those that were named."""
        if self.gallery.selection:
            self.gallery.select(())
        elif items:
            self.gallery.cursor += 1

    def action_right(self) -> None:
        items = self.selected
        self.verdicts.right([item.answer for item in items])
        self._advance(items)

    def action_drop(self) -> None:
        """Take answers off the list; the photos stay where they are, and what they are examples of."""
        items = self.selected
        self.controller.query.drop([item.path for item in items])
        self.gallery.select(())
        self.controller.listener()
        self.notify(f"{len(items)} of the answers dropped; p asks again")

    def action_undo(self) -> None:
        self.notify(self.context.step_back(), timeout=2)

    def action_redo(self) -> None:
        self.notify(self.context.step_back(undo=False), timeout=2)

    @on(Histogram.Moved)
    def move_threshold(self, event: Histogram.Moved) -> None:
        self.verdicts.set_threshold(event.value)

    def action_threshold(self, step: float) -> None:
        self.verdicts.step_threshold(step)

    def action_type_threshold(self) -> None:
        self.verdicts.type_threshold()

    def action_calibrate(self) -> None:
        self.verdicts.calibrate()

    def action_sort_photos(self) -> None:
        self.verdicts.sort_into_folders([self.items[path] for path in self.controller.arrangement.paths])

    def action_write(self) -> None:
        self.verdicts.write([self.items[path] for path in self.controller.arrangement.paths])

    def action_ask(self) -> None:
        self.verdicts.ask_more()


def described(item: Reviewed, names: dict[int, str], example: str) -> str:
    """An answer in a line: what it says, what speaks against it, what it rests on, and what it said before."""
    best = best_score(item.answer)
    name = display_name(item.path.rpartition("/")[2], 30)
    if best is None:
        return f"{name}: {display_name(item.answer.get('reason', ''))}"
    parts = [
        f"{name}: {display_name(item.verdict, 24)} {best['probability']:.2f}, {percent(best['explained'])} explained"
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
