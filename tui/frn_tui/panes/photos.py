"""The photos of the chosen class: sorted, filtered, selected, moved, removed."""

from collections.abc import Callable, Container
from dataclasses import replace
from math import inf

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult

from frn.projects.session import ClassEntry, Support
from frn_tui.client.protocol import Advise, Answer, ClassReport
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.document.controller import Controller
from frn_tui.document.queries import best_score
from frn_tui.document.review_state import OTHER
from frn_tui.panes.context import Context, Pane
from frn_tui.panes.verdicts import choose_class, class_of_number
from frn_tui.terminal.paths import name_of
from frn_tui.terminal.text import count_of, display_name, percent
from frn_tui.widgets.gallery import MIN_TILE, SMALL_TILE, Gallery, GalleryItem

TITLES = {
    "outlier": "misfits of all classes",
    "near": "near copies of all classes",
    "differing": "photos on which the models disagree",
}


class PhotosPane(Pane):
    """Photos of one class, and how well each fits it."""

    def __init__(self, context: Context, show_found: Callable[[int, str], object]) -> None:
        """`show_found` shows a class, given by its id, and one of its photos, given by its path."""
        super().__init__(context, id="photos-pane")
        self._show_found = show_found
        self.gallery = Gallery(mode=context.mode, id="gallery")
        self.piles = Piles(mode=context.mode, id="piles")
        self.opens = False
        """Whether the answers for the samples are shown as piles, until the photos of a class are wanted."""
        self.entry: ClassEntry | None = None
        self.by_fit = False
        self.everywhere = ""
        """Mark of the photos shown from all classes, or "differing"; empty: photos of one class."""
        self.differing: Container[str] = ()
        self._keys: dict[str, list[str]] = {}
        """Keys of the photos that are shown, by path: a file that has changed and was added again has two."""
        self.wanted_name = ""
        self._session = self.controller.session
        """Session whose photos are filtered by this name."""

    def compose(self) -> ComposeResult:
        yield self.piles
        yield self.gallery

    def open_with_piles(self, opens: bool) -> None:
        """Show piles of sorted samples instead of one class's photos, or stop that."""
        if opens != self.opens:
            self.opens = opens
            self.show(self.entry)

    def show(self, entry: ClassEntry | None) -> None:
        self.entry = entry
        self.opens = self.opens and (entry is None or self.controller.shows_samples)
        self.set_class(self.opens, "-opens")
        if self.opens:
            self.piles.show(self.controller)
            self.border_title = Text("Sorted from five examples each; ? fits none")
            return
        if self.controller.session is not self._session:
            self._session, self.wanted_name = self.controller.session, ""
        if self.everywhere:
            items = [item for _, item in self._everywhere(self.everywhere)]
        else:
            items = [] if entry is None else self._items(entry)
            if entry is not None and self.by_fit:
                items.sort(key=lambda item: self._misfit(entry.id, item)[1])
        if self.wanted_name:
            wanted = self.wanted_name.casefold()
            items = [item for item in items if wanted in f"{item.name}/{name_of(item.path)}".casefold()]
        self._keys = {}
        for item in items:
            self._keys.setdefault(item.path, []).append(item.key or "")
        whose = TITLES.get(self.everywhere, display_name(entry.name, 30) if entry is not None else "")
        narrowed = f" · only “{display_name(self.wanted_name, 16)}”" if self.wanted_name else ""
        is_narrowed = bool(self.everywhere or narrowed)
        self.gallery.empty_text = f"no matching photos: {whose}{narrowed}   esc: back" if is_narrowed else ""
        self.gallery.set_items(items)
        order = " · worst fit first" if self.by_fit and not self.everywhere else ""
        away = sum(item.mark == "missing" for item in items)
        gone = f" · {away} missing" if away else ""
        self.border_title = Text(f"Photos · {whose} {len(items)}{gone}{narrowed}{order}" if whose else "Photos")
        self.show_selection()

    def _everywhere(self, mark: str) -> list[tuple[int, GalleryItem]]:
        """Return the photos with a mark from all classes, with the class ids, worst first."""
        found = [(entry.id, item) for entry in self.controller.session.state.classes for item in self._items(entry)]
        is_differing = mark == "differing"
        some = [one for one in found if (one[1].path in self.differing if is_differing else one[1].mark == mark)]
        return sorted(some, key=lambda one: self._misfit(*one))

    def _items(self, entry: ClassEntry) -> list[GalleryItem]:
        report = self.controller.reports.get(entry.id)
        items = [_item(support, entry, report, self.controller) for support in entry.supports]
        if not self.everywhere:
            return items
        is_list = self.gallery.view == "list"  # a small tile has room for the class only
        return [replace(item, name=f"{entry.name}/{item.name}" if is_list else entry.name) for item in items]

    def _misfit(self, class_id: int, item: GalleryItem) -> tuple[float, float]:
        """Sort key of photos: by how likely a mistake each is, then by how little its class explains."""
        report = self.controller.reports.get(class_id)
        if report is None or item.key not in report["explained"]:
            return inf, 2.0
        return -report["rival"].get(item.key, (0, 0.0, -inf))[2], report["explained"][item.key]

    @on(Gallery.Changed)
    def show_selection(self) -> None:
        count = len(self.gallery.selection)
        self.border_subtitle = Text(f"{count} selected" if count else "")
        self.context.screen.show_keys()

    def digits(self) -> str:
        count, item = len(self.gallery.selection), self.gallery.cursor_item
        if item is None:
            return ""
        return f"1-9: move {count_of(count, 'photo') if count else display_name(name_of(item.path), 24)} to"

    def action_number(self, number: int) -> None:
        if (entry := class_of_number(self.context, number)) is not None:
            self._assign(entry)

    def action_move(self) -> None:
        if self.gallery.cursor_item is not None:
            choose_class(self.context, "Move to class", self._assign)

    def _assign(self, target: ClassEntry) -> None:
        inside = {support.key for support in target.supports}
        if keys := [key for key in self._selected_keys() if key not in inside]:
            said = f"moved {count_of(len(keys), 'photo')} to {target.name}"
            self.context.edit(lambda session: session.move(keys, target.id), said)

    def action_remove(self) -> None:
        keys = self._selected_keys()
        if keys and self.entry is not None:
            whose = "their classes" if self.everywhere else self.entry.name
            said = f"removed {count_of(len(keys), 'photo')} from {whose}"
            self.context.edit(lambda session: session.remove(keys), said)

    def action_none_of_these(self) -> None:
        keys = set(self._selected_keys())
        supports = [s for entry in self.controller.session.state.classes for s in entry.supports if s.key in keys]
        if supports:
            said = f"labelled {count_of(len(supports), 'photo')} as {OTHER}"
            self.context.edit(lambda session: session.set_aside(supports), said)

    def action_copy(self) -> None:
        keys = set(self._selected_keys())
        classes = self.controller.session.state.classes
        lines = [f"{s.path}\t{entry.name}" for entry in classes for s in entry.supports if s.key in keys]
        self.context.copy(lines, "path and class")

    def _selected_keys(self) -> list[str]:
        item, selection = self.gallery.cursor_item, self.gallery.selection
        if selection:
            return [key for path in selection for key in self._keys.get(path, [])]
        return [item.key] if item is not None and item.key is not None else []

    def action_find(self) -> None:
        def named(text: str) -> None:
            self.wanted_name = text.strip()
            self.show(self.entry)

        self.context.ask(AskText("Filter photos by name", self.wanted_name), named)

    def action_sort(self) -> None:
        self.by_fit = not self.by_fit
        self.show(self.entry)

    def action_filter(self) -> None:
        marks = ["", *(mark for mark in TITLES if mark != "differing" or self.differing)]
        options = ["all photos of the class", *(f"{TITLES[mark]}  {len(self._everywhere(mark))}" for mark in marks[1:])]
        self.context.ask(Choose("Show only photos", options), lambda index: self.show_everywhere(marks[index]))

    def action_misfits(self) -> None:
        self.show_everywhere("" if self.everywhere == "outlier" else "outlier")
        if self.everywhere:
            self.context.start(self._advise, group="advice")

    async def _advise(self) -> None:
        """Name the most useful changes of the examples."""
        await self.controller.sync()
        if advice := await self.controller.engine.call(Advise()):
            self.context.say("   ".join(advice))

    def show_everywhere(self, mark: str) -> None:
        """Show the photos from all classes with a mark; if it is empty, those of the chosen class."""
        self.everywhere, self.opens = mark, False
        self.context.screen.set_class(bool(mark), "-everywhere")
        self.gallery.least = SMALL_TILE if mark else MIN_TILE
        self.show(self.entry)
        self.gallery.cursor = 0
        self.gallery.focus()

    def action_outlier(self, step: int) -> None:
        misfits, item = self._everywhere("outlier"), self.gallery.cursor_item
        paths = self.gallery.paths if self.everywhere == "outlier" else [misfit.path for _, misfit in misfits]
        if not paths:
            self.context.say("no misfit has this name" if misfits else "every photo fits its class")
            return
        at = paths.index(item.path) if item is not None and item.path in paths else None
        place = (0 if step > 0 else -1) if at is None else (at + step) % len(paths)
        self.context.say(f"misfit {place % len(paths) + 1} of {len(paths)}   n, N: others")
        if self.everywhere == "outlier":
            self.gallery.cursor = place % len(paths)
        else:
            self.wanted_name = ""
            self._show_found(misfits[place][0], paths[place])

    @property
    def misfits(self) -> bool:
        return any(rank > 0 for report in self.controller.reports.values() for rank in report["rank"].values())

    def action_view(self) -> None:
        self.gallery.view = "list" if self.gallery.view == "grid" else "grid"
        self.show(self.entry)


class Piles(Gallery, can_focus=False):
    """Answers as columns: three classes with a pile each, and one of unknown photos. It has no keys."""

    COLUMNS = 4

    def on_resize(self, event: events.Resize) -> None:
        self.tile_width = max((event.size.width + 1) // self.COLUMNS - 1, 1)
        super().on_resize(event)

    def show(self, controller: Controller) -> None:
        piles: dict[str, list[Answer]] = {}
        for answer in controller.query.answers:
            if (best := best_score(answer)) is not None:
                named = controller.names.get(best["id"], "")
                piles.setdefault("?" if answer.get("unknown") else named, []).append(answer)
        unknown = piles.pop("?", [])
        known = sorted(piles, key=lambda name: -len(piles[name]))[: self.COLUMNS - 1]
        columns = [*(piles[name] for name in sorted(known)), unknown]
        tall = max(min(map(len, columns)), 1)
        shown = [column[row] for row in range(tall) for column in columns if row < len(column)]
        names = [*sorted(known), *["?"] * bool(unknown)]
        self.set_items(
            GalleryItem(answer["path"], names[at % len(names)], answer.get("key")) for at, answer in enumerate(shown)
        )


def _item(support: Support, entry: ClassEntry, report: ClassReport | None, controller: Controller) -> GalleryItem:
    """Return a photo with how well the rest of its class explains it."""
    path, key = str(support.path), support.key
    name = path.rpartition("/")[2]
    if path in controller.missing:
        return GalleryItem(path, name, key, "missing", "is missing; R finds it by its content")
    if report is None:
        return GalleryItem(path, name, key)
    if twin := report["near"].get(key):
        holder, _ = controller.session.state.holders().get(twin, (entry, None))
        where = f"the same photo is in {display_name(holder.name, 24)}; it is used in neither"
        return GalleryItem(path, name, key, "near", "near copy of another photo" if holder.id == entry.id else where)
    share, rank = report["explained"].get(key), report["rank"].get(key, 0)
    if share is None:
        return GalleryItem(path, name, key)
    odd = ""
    if rival := report["rival"].get(key):
        better = display_name(controller.names.get(rival[0], "another class"), 24)
        odd = f"; {better} explains {percent(rival[1], 1)} more"
    mark = "outlier" if rank > 0 or share < controller.calibrated else ""
    return GalleryItem(path, name, key, mark, f"its class explains {percent(share)}{odd}")  # type: ignore[arg-type]
