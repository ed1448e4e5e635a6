"""Review of all results in a grid or table, with bulk labels and the histogram for the threshold."""

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from frn_tui.client.protocol import QueryAnswer
from frn_tui.dialogs.dialogs import Dialog
from frn_tui.document.lettered_page import LETTERS, LetteredPage
from frn_tui.document.queries import best_score, subject_in
from frn_tui.document.review_state import Reviewed, effort, rival, summary
from frn_tui.panes.context import Context
from frn_tui.panes.picture import LargeView
from frn_tui.panes.verdicts import Arranging, Judging, Threshold, rename_class
from frn_tui.settings.keys import TABLE, KeyedScreen
from frn_tui.terminal.text import class_keys, count_of, display_name, fit
from frn_tui.widgets.bars import Histogram
from frn_tui.widgets.gallery import Gallery, GalleryItem
from frn_tui.widgets.jobs import JobLine

COLUMNS = ("answer", "prob.", "known", "lead", "rival", "mostly from")
ORDERED_BY = {
    "by file": "file",
    "by class": "answer",
    "least probable first": "prob.",
    "least known first": "known",
    "least certain first": "lead",
    "by rival": "rival",
    "by main example": "mostly from",
}
"""Column of the table that each order sorts."""
WIDE = 100  # width in cells from which the table shows the main example
FOOTER = "help right none-of-these move next-outlier sort filter view remove undo export"
PAGE_FOOTER = "help none-of-these move zoom undo cancel"
PAGE_KEYS = "letter: to the class after →, again: the next   1-9: class   Y: rest is right"


class Review(Judging, Arranging, KeyedScreen[str | None], Dialog[str | None]):
    """Screen of all results; returns the path of the photo to show."""

    DEFAULT_CSS = """
    Review {
        #review { width: 100%; height: 100%; background: $surface; }
        #review-title { height: 1; background: $panel; color: $text; text-style: bold; padding: 0 1; }
        #review-photos { height: 1fr; min-height: 3; }
        #review-columns { height: 1; color: $text-muted; text-wrap: nowrap; link-style: none; link-style-hover: bold; }
        #review-columns { link-color: $text-muted; link-background: transparent; }
        #review-detail { height: 1; color: $foreground; }
        #large { height: 1fr; display: none; }
        #large-beside { width: 1fr; margin-left: 1; }
        #large-beside Static { height: 1; color: $text-muted; }
        &.-large #large { display: block; }
        &.-large #review-photos, &.-large #histogram, &.-short #histogram { display: none; }
    }
    """
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "show", "Enlarge with error map and main example, then show in the workspace"),
        Binding("j,down,right,l", "step(1)", "Next photo"),
        Binding("k,up,left,h", "step(-1)", "Previous photo"),
        *(Binding(key, f"letter({key!r})", priority=True) for key in LETTERS),
        Binding("pagedown", "page(1)", priority=True),
        Binding("pageup", "page(-1)", priority=True),
        *KeyedScreen.BINDINGS,  # if there are no letters
    ]

    def __init__(self, context: Context, threshold: Threshold, services: Sequence[object], view: str) -> None:
        """`services` handle the keys that are not the review's own."""
        super().__init__()
        self.context, self.controller = context, context.controller
        self.threshold, self.services = threshold, services
        self.gallery = Gallery(mode=self.context.mode, id="review-photos")
        self.gallery.view = view  # type: ignore[assignment]
        self._widths, self._room = [0, 0, 0], 20
        """Widest answer, rival and main example, and the room beside the names, in cells."""
        self.large = LargeView(self.context)
        self.histogram = Histogram(id="histogram")
        self.jobs = JobLine(id="review-jobs")
        self.items: dict[str, Reviewed] = {}
        self.page, self._page_size = LetteredPage(), 1  # and how many photos fit on a page

    def handlers(self) -> list[object]:
        return [self, *self.services, self.gallery]

    def needed(self) -> dict[str, object]:
        return {"undo": self.controller.session.can_undo}

    def compose(self) -> ComposeResult:
        with Vertical(id="review"):
            yield Static(id="review-title")
            yield Static(id="review-columns")
            yield self.gallery
            yield self.large
            yield Static(id="review-detail")
            yield self.histogram
            yield self.jobs
            yield Static(id="review-keys")

    def begin(self) -> None:
        self.context.watchers.append(self.show)
        self.context.lines.append(self.jobs)
        self.show()
        shown, paths = self.controller.query.answer, self.controller.arrangement.paths
        if shown is not None and shown["path"] in paths:
            self.gallery.cursor = paths.index(shown["path"])
        self.gallery.focus()

    def on_unmount(self) -> None:
        if self.show in self.context.watchers:
            self.context.watchers.remove(self.show)
            self.context.lines.remove(self.jobs)

    def on_resize(self, event: events.Resize) -> None:
        if self.begun:
            self.call_after_refresh(self._put_letters if self.page else self.show)

    def show(self) -> None:
        if not self.begun or not self.is_attached:
            return
        items = self.controller.reviewed()
        self.items = {item.path: item for item in items}
        arrangement = self.controller.arrangement
        chosen = [self.items[path] for path in arrangement.paths]
        self.gallery.empty_text = f"no answers match: {arrangement.words}   f: filter   /: find"
        if self.gallery.view == "list":
            rows = [self._cells(item) for item in chosen]
            self._widths = [max((cell_len(row[of]) for row in rows), default=0) for of in (0, 4, 5)]
            width, named = self.gallery.size.width, max((cell_len(_named(item)) for item in chosen), default=0)
            self._room = max(width // 2 - 2, min(width - named - 14, width - 30), 20)
        self.gallery.set_items([self._tile(item) for item in chosen])
        words = display_name(arrangement.words, 40) + self.controller.query.how + self.controller.query.waiting
        words = words.removeprefix("original order").removeprefix(" · ")
        if self.gallery.size:  # not while the large view hides it
            self._page_size = min(self.gallery.capacity, len(LETTERS))
        page, pages = self.page.first // self._page_size + 1, -(-len(chosen) // self._page_size)
        keys, place = effort(items, self._page_size), f"page {page} of {pages}" if self.page else ""
        parts = ("Answers", f"{len(chosen)} of {len(items)}", keys, place, words, summary(items))
        self._update("title", " · ".join(filter(None, parts)))
        columns = self.query_one("#review-columns", Static)
        columns.display = self.gallery.view == "list" and not self.has_class("-large")
        columns.update(self._heads(ORDERED_BY.get(arrangement.order, "")))
        known = list(self.controller.known.values())
        shares = [item.answer["known"] for item in items if "known" in item.answer]
        threshold = self.threshold.value
        is_default = self.controller.session.state.threshold is None or not known
        self.histogram.show(known, shares, threshold, self.controller.expected if is_default else "")
        self.follow_cursor()

    def _update(self, name: str, text: str) -> None:
        self.query_one(f"#review-{name}", Static).update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _tile(self, item: Reviewed) -> GalleryItem:
        sign = "◆" if item.label is not None else "●" if item.is_seen else "○"
        name, note = f"{sign} {item.words}", ""
        if self.gallery.view == "list":
            name, note = _named(item), self._line(sign, *self._cells(item))
        mark = "" if item.is_readable else "broken"
        if item.path in self.page:
            mark, sign = self.page.letter(item.path), "◆" if item.label is not None else "?"
            sign = sign if item.label is not None or item.is_unknown else " "
            room = self.gallery.tile.width - 3
            name = name if note else sign + self.page.choice(item, self.controller.names, room)
        return GalleryItem(item.path, name, item.answer.get("key"), mark, note, tuple(subject_in(item.answer)))

    def _cells(self, item: Reviewed) -> tuple[str, ...]:
        if best_score(item.answer) is None:
            return (item.said, "", "", "", "", "")
        numbers, near = (item.certainty, item.known, f"{item.lead:.2f}"), item.nearest
        said = self.page.choice(item, self.controller.names, 60) if item.path in self.page else item.said
        return (said, *numbers, rival(item.answer, self.controller.names), near.path.name if near else "")

    def _heads(self, sorted_by: str) -> str:
        """Return the names of the columns as markup: a click sorts by one."""
        line = self._line("", *COLUMNS)
        line = f"{'file':<{max(self.gallery.scrollable_content_region.width - cell_len(line), 5)}}{line}"
        for name in ("file", *COLUMNS):
            shown = f"{name[: min(len(name) - 1, 4)]}▾" if name == sorted_by else name
            line = line.replace(name, f"[@click=screen.sort_by({name!r})]{shown:<{len(name)}}[/]", 1)
        return line

    def action_sort_by(self, column: str) -> None:
        self._arrange(order=next(order for order, sorted_by in ORDERED_BY.items() if sorted_by == column))

    def _line(self, sign: str, *cells: str) -> str:
        """Return the part of a table row that fits next to the name."""
        room = self._room
        numbers = f"{cells[1]:>5} {cells[2]:>5}" + (f" {cells[3]:>5}" if room >= 40 else "")
        named = room - 2 - cell_len(numbers)
        texts = [cells[0], *([cells[4]] if room >= 34 else []), *([cells[5]] if room >= WIDE // 2 else [])]
        least = [max(wide, len(head)) for wide, head in zip(self._widths, (COLUMNS[0], *COLUMNS[4:]), strict=True)]
        fitted = fit(least[: len(texts)], named - len(texts))
        shown = [set_cell_size(display_name(text, width), width) for text, width in zip(texts, fitted, strict=True)]
        return " ".join([sign or " ", shown[0], numbers, *shown[1:]])

    @on(Gallery.Changed)
    def follow_cursor(self) -> None:
        """Show the whole answer under the cursor, and what the keys would do now."""
        cursor = self.gallery.cursor_item
        item = self.items.get(cursor.path) if cursor else None
        near = item.nearest if item else None
        self._update("detail", described(item, self.controller.names) if item else "")
        self.query_one("#review-keys", Static).update(self.footer((PAGE_FOOTER if self.page else FOOTER).split()))
        count = len(self.gallery.selection)
        what = count_of(count, "photo") if count else "it"
        whose = f"{what} to:  " if item else ""
        room = self.size.width - len(whose) - 8
        self.jobs.hint = f"1-9: add {whose}{class_keys(self.controller.names.values(), room)}" if whose else ""
        if self._has_letters:
            self.jobs.hint = PAGE_KEYS
        if self.has_class("-large"):
            subject = self.controller.box_in(near.key) if near else []
            self.large.show(item.answer if item else None, str(near.path) if near else "", subject)
            shown = self.controller.query.answer
            if item is not None and (shown is None or shown["path"] != item.path):
                self.context.start(self.controller.show, item.path, group="step")

    def judged(self) -> list[QueryAnswer]:
        """Return the selected answers, or the one under the cursor."""
        cursor = self.gallery.cursor_item
        paths = self.gallery.selection or ([cursor.path] if cursor else [])
        return [self.items[path].answer for path in paths if path in self.items]

    def advance(self) -> None:
        """Clear the selection, or move to the next photo; among photos with letters, stay."""
        if self.gallery.selection:
            self.gallery.select(())
        elif not self._has_letters:
            self.gallery.cursor += 1

    def rearranged(self) -> None:
        self._end_pages()
        self.gallery.cursor = 0

    @on(Gallery.Opened)
    def open(self, event: Gallery.Opened) -> None:
        event.stop()
        self._enlarge(True)

    def _enlarge(self, large: bool) -> None:
        self.set_class(large, "-large")
        self.show()
        if not large:
            self.call_after_refresh(self.show)  # a hidden table has no width
            self.gallery.focus()

    def action_show(self) -> None:
        """Go from the large photo to the workspace; in the grid, the gallery handles the key first."""
        if self.has_class("-large") and (item := self.gallery.cursor_item) is not None:
            self.dismiss(item.path)

    def action_step(self, step: int) -> None:
        self.gallery.cursor += step

    def action_cancel(self) -> None:
        if self.has_class("-large"):
            self._enlarge(False)
        elif self.page:
            self._end_pages()
        elif self.begun and (self.gallery.selection or self.gallery.selects):
            self.gallery.select(())
        elif self.controller.arrangement.is_filtered:
            self._arrange(kind="all", said="", wanted="")
        else:
            self.dismiss(None)

    action_leave = action_cancel

    def action_review(self) -> None:
        self.dismiss(None)

    def action_pane(self, step: int) -> None:
        self.elsewhere("next-pane")

    def action_crop(self) -> None:
        self.elsewhere("crop")

    def elsewhere(self, name: str) -> None:
        self.context.say(f"{TABLE[name].meaning}: only in the workspace   esc: go there")

    def action_outlier(self, step: int) -> None:
        """Show the least certain answers, with a letter on each."""
        self._enlarge(False)
        self.gallery.select(())
        self._arrange(order="least certain first")
        self._turn_to(0)

    def _turn_to(self, place: int) -> None:
        """Show the page from a place on; the photos on no page yet are sorted by their present answers."""
        arrangement = self.controller.arrangement
        arrangement.sort(self.controller.reviewed())
        if place >= sum(path in self.items and self.items[path].is_readable for path in arrangement.paths):
            self._end_pages()
            self.context.say(f"no more answers{self.controller.query.waiting}   n: again from the least certain")
            return
        self.page = LetteredPage(place)
        self.show()
        self._put_letters()

    def _put_letters(self) -> None:
        """Put letters on the photos of the page that are in view; those that had one keep what it does."""
        self.gallery.clicks = True
        first, arrangement = self.page.first, self.controller.arrangement
        self.gallery.show_from(first)
        paths = [self.gallery.paths[at] for at in self.gallery.in_view if at >= first][: len(LETTERS)]
        self.page = self.page.with_photos([self.items[path] for path in paths])
        arrangement.held = max(arrangement.held, first + len(paths))
        self.show()

    def _end_pages(self) -> None:
        self.page, self.controller.arrangement.held, self.gallery.clicks = LetteredPage(), 0, False
        self.show()

    @property
    def _has_letters(self) -> bool:
        return bool(self.page) and not self.has_class("-large")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let a letter be what it is elsewhere while no photo has one."""
        return super().check_action(action, parameters) and (action not in ("letter", "page") or self._has_letters)

    @property
    def _on_page(self) -> dict[str, Reviewed]:
        """Return the photos with letters that are in view, by letter."""
        items = {item.path: item for item in self.controller.reviewed()}  # `self.items` may be older than the last key
        shown = [self.gallery.paths[at] for at in self.gallery.in_view]
        return {self.page.letter(path): items[path] for path in shown if path in self.page and path in items}

    def action_letter(self, letter: str) -> None:
        """Give the photo with a letter to the next likely class."""
        item, names = self._on_page.get(letter), self.controller.names
        if item is not None and (ids := self.page.classes_of(item, names)):
            self.gallery.cursor = self.gallery.paths.index(item.path)
            self.judge({ids[1 % len(ids)]: [item.answer]})

    @on(Gallery.Clicked)
    def press_letter(self, event: Gallery.Clicked) -> None:
        event.stop()
        if self._has_letters and event.item.path in self.page:
            self.action_letter(self.page.letter(event.item.path))

    def action_right_all(self) -> None:
        """Confirm the photos of the page without a label, and turn it; without letters, confirm as elsewhere."""
        if not self._has_letters:
            super().action_right_all()
            return
        by_class: dict[int, list[QueryAnswer]] = {}
        for item in self._on_page.values():
            if item.label is None and (ids := self.page.classes_of(item, self.controller.names)):
                by_class.setdefault(ids[0], []).append(item.answer)
        if by_class:
            self.judge(by_class, ": the rest of the page")
        self.action_page(1)

    def action_page(self, step: int) -> None:
        """Turn the page, forwards as soon as all answers have followed the labels."""
        if step > 0:
            self.context.start(self._turn, group="page")
        else:
            self._turn_to(max(self.page.first - self._page_size, 0))

    async def _turn(self) -> None:
        await self.controller.sync()
        if self._has_letters:
            self._turn_to(self.page.first + len(self.page))

    def action_new(self) -> None:
        arrived = [path for path in self.controller.query.arrived if path in self.items]
        if arrived and arrived[0] in (paths := self.gallery.paths):
            self.controller.query.seen.add(arrived[0])
            self.gallery.cursor = paths.index(arrived[0])
            self.show()
        else:
            self.context.say("no new photo is listed")

    def action_remove(self) -> None:
        super().action_remove()
        self.gallery.select(())

    def action_rename(self) -> None:
        cursor = self.gallery.cursor_item
        score = self.items[cursor.path].score if cursor else None
        if score is not None and (entry := self.controller.entry(score["id"])) is not None:
            rename_class(self.context, entry)

    def action_zoom(self, step: int) -> None:
        self._enlarge(step > 0)

    def action_histogram(self) -> None:
        self.histogram.display = not self.histogram.display

    def action_view(self) -> None:
        self.gallery.view = "list" if self.gallery.view == "grid" else "grid"
        self.show()

    @on(Histogram.ThresholdChosen)
    def set_threshold(self, event: Histogram.ThresholdChosen) -> None:
        self.threshold.set(event.value)


def _named(item: Reviewed) -> str:
    return "/".join(item.path.split("/")[-2:])


def described(item: Reviewed, names: dict[int, str]) -> str:
    """Return a result in one line: prediction, rival, main example, label and first prediction."""
    best = best_score(item.answer)
    name = display_name(item.path.rpartition("/")[2], 30)
    if best is None:
        return f"{name}: {display_name(item.answer.get('reason', ''))}"
    sure, known = (
        "" if item.is_unknown else f" {best['probability']:.2f}",
        f", {item.known} known" if item.known else "",
    )
    parts = [f"{name}: {display_name(item.verdict, 24)}{sure}{known}"]
    if other := rival(item.answer, names):
        parts.append(f"rival {display_name(other, 24)}")
    if near := item.nearest:
        parts.append(f"mostly from {display_name('/'.join(near.path.parts[-2:]), 24)}")
    if item.label is not None:
        parts.append(f"your label {display_name(item.label, 24)}")
    return " · ".join(parts)
