"""The photos of the chosen class: sorted, filtered, selected, moved, removed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult

from frn.projects.session import ClassEntry, Session, Support
from frn_tui.client.protocol import Advise, ClassReport, QueryAnswer
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.document.controller import Controller
from frn_tui.document.queries import best_score, subject_in
from frn_tui.document.review_state import OTHER
from frn_tui.panes.context import Context, Pane
from frn_tui.panes.verdicts import called, choose_class, class_of_number
from frn_tui.terminal.paths import name_of
from frn_tui.terminal.text import count_of, display_name, percent
from frn_tui.widgets.gallery import MIN_TILE, SMALL_TILE, Gallery, GalleryItem

LEGEND = {"outlier": "! fits another class better, or hardly its own", "near": "≈ near copy", "missing": "? missing"}
TITLES = {"outlier": "misfits of all classes", "near": "near copies of all classes"}


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
        self.everywhere = ""  # mark of the photos shown from all classes; empty: photos of one class
        self._listed: list[tuple[int, str | None]] = []
        """Class ids and keys of these photos in their order. Those that fit by now stay, so that no key meets another
        photo than the one that its user saw."""
        self._keys: dict[str, list[str]] = {}
        """Keys of the photos that are shown, by path: a file that has changed and was added again has two."""
        self._class_of: dict[str | None, int] = {}  # ids of the classes of the photos by key
        self.wanted_name = ""
        self._session = self.controller.session  # session whose photos are filtered by this name

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
            self.border_title = Text("Sorted photos; ? fits none")
            return
        if self.controller.session is not self._session:
            self._session, self.wanted_name = self.controller.session, ""
        marked = self._everywhere(self.everywhere) if self.everywhere else []
        if self.everywhere:
            classes, listed = self.controller.session.state.classes, set(self._listed)
            there = {(each.id, item.key): item for each in classes for item in self._items(each)}
            self._listed += [place for class_id, item in marked if (place := (class_id, item.key)) not in listed]
            items = [there[place] for place in self._listed if place in there]
            self._class_of = {key: class_id for class_id, key in there}
        else:
            items = [] if entry is None else self._items(entry)
            self._class_of = {item.key: entry.id for item in items} if entry is not None else {}
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
        comparing = self.controller.comparing if self.by_fit or self.everywhere in ("outlier", "near") else ""
        none = "none yet" if comparing or not self.controller.names else "no matching photos"
        self.gallery.empty_text = f"{none}: {whose}{narrowed}{comparing}   esc: back" if is_narrowed else ""
        self.gallery.set_items(items)
        order = " · worst fit first" if self.by_fit and not self.everywhere else ""
        away = sum(item.mark == "missing" for item in items)
        gone = f" · {away} missing" if away else ""
        coming = self.controller.coming if entry is not None and not self.everywhere else {}
        gone += f" of {coming[entry.id]}" if entry and entry.id in coming else ""
        count = f"{len(marked)}{f' · {len(items) - len(marked)} fit by now' if len(items) > len(marked) else ''}"
        count = count if self.everywhere and not self.wanted_name else f"{len(items)}"
        self.border_title = Text(f"Photos · {whose} {count}{gone}{narrowed}{comparing}{order}" if whose else "Photos")
        self.show_selection()

    def _everywhere(self, mark: str) -> list[tuple[int, GalleryItem]]:
        """Return the photos with a mark from all classes, with the class ids, worst first."""
        photos = [(entry.id, item) for entry in self.controller.session.state.classes for item in self._items(entry)]
        return sorted((one for one in photos if one[1].mark == mark), key=lambda one: self._misfit(*one))

    def _items(self, entry: ClassEntry) -> list[GalleryItem]:
        report = self.controller.reports.get(entry.id)
        items = [_item(support, entry, report, self.controller) for support in entry.supports]
        if self.controller.boxes:
            items = [replace(item, subject=tuple(self.controller.box_in(item.key or ""))) for item in items]
        if not self.everywhere:
            return items
        is_list = self.gallery.view == "list"  # a small tile has room for the class only
        names = [f"/{item.name}" if is_list else self._suggestion(entry.id, item) for item in items]
        return [replace(item, name=entry.name + name) for item, name in zip(items, names, strict=True)]

    def _suggestion(self, class_id: int, item: GalleryItem) -> str:
        """Return the class that a photo fits better, and its probability."""
        rival, chance = self._rival(class_id, item.key)
        return f" → {self.controller.names[rival]} {chance:.2f}" if rival in self.controller.names else ""

    def _rival(self, class_id: int, key: str | None) -> tuple[int, float]:
        """Return the id of the class that a photo fits better and its probability; 0 if it fits its own class.

        Also 0 if the photo has a found box, until all examples have been searched: first probabilities are preliminary.
        """
        if key in self.controller.boxes and self.controller.comparing:
            return 0, 0.0
        report = self.controller.reports.get(class_id)
        rival = report["rival"].get(key or "") if report else None
        return (rival[0], rival[3]) if rival else (0, 0.0)

    def _suggested(self, keys: Iterable[str], least: float = 0.0) -> dict[int, list[str]]:
        """Return the keys of listed photos that fit another class at least so well, by its id."""
        moves: dict[int, list[str]] = {}
        for key in keys:
            rival, chance = self._rival(self._class_of.get(key, 0), key)
            if rival in self.controller.names and chance >= least:
                moves.setdefault(rival, []).append(key)
        return moves

    def _misfit(self, class_id: int, item: GalleryItem) -> tuple[float, float]:
        """Sort key of photos: by how likely a mistake each is, then by how little its class explains."""
        report = self.controller.reports.get(class_id)
        if report is None or item.key not in report["explained"]:
            return inf, 2.0
        return -report["rival"].get(item.key, (0, 0.0, -inf, 0.0))[2], report["explained"][item.key]

    @on(Gallery.Changed)
    def show_selection(self) -> None:
        count = len(self.gallery.selection)
        marks = {item.mark for item in self.gallery.items}
        legend = "  ".join(words for mark, words in LEGEND.items() if mark in marks)
        self.border_subtitle = Text(f"{count} selected" if count else legend)
        self.context.screen.show_keys()

    def digits(self) -> str:
        count, item = len(self.gallery.selection), self.gallery.cursor_item
        if item is None:
            return ""
        return f"1-9: move {count_of(count, 'photo') if count else display_name(name_of(item.path), 24)} to"

    def suggestion(self) -> str:
        """Describe what `y` and `Y` would do now; nothing if no other class is suggested."""
        moves = self._suggested(self._selected_keys())
        if not moves and not self.gallery.selection and self._found(self._selected_keys()):
            return f"y: use the box that was found   Y: all {len(self._found(self._all_keys)):,}   "
        if len(moves) != 1 or self.gallery.selection:
            return ""
        more = sum(map(len, self._as_likely().values()))
        name = display_name(self.controller.names[next(iter(moves))], 20)
        return f"y: to {name} {self._chance:.2f}   Y: all {more:,} from {self._chance:.2f} up   "

    @property
    def _chance(self) -> float:
        """Probability of the class that the photo under the cursor fits better."""
        key = item.key if (item := self.gallery.cursor_item) is not None else None
        return self._rival(self._class_of.get(key, 0), key)[1]

    def _as_likely(self) -> dict[int, list[str]]:
        """Return the keys of listed photos that fit another class as well as the photo under the cursor does."""
        return self._suggested(self._all_keys, self._chance)

    @property
    def _all_keys(self) -> list[str]:
        return [key for keys in self._keys.values() for key in keys]

    def _found(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in self.controller.boxes]

    @property
    def suggests(self) -> bool:
        """Return whether another class or a box is suggested for the photo under the cursor."""
        return self._chance > 0 or bool(self._found(self._selected_keys()))

    def action_right(self) -> None:
        keys = self._selected_keys()
        if not (moves := self._suggested(keys)) and (found := self._found(keys)):
            self._use_boxes(found)
        else:
            self._take(moves)

    def action_right_all(self) -> None:
        if least := self._chance:
            self._take(self._as_likely(), f": all from {least:.2f} up")
        elif found := self._found(self._all_keys):
            self._use_boxes(found)

    def _use_boxes(self, keys: Sequence[str]) -> None:
        self.context.edit(
            lambda session: self.controller.use_boxes(keys), f"{self._called(keys)}: now with the box that was found"
        )

    def _take(self, moves: dict[int, list[str]], which: str = "") -> None:
        """Move photos to the classes that they fit better."""
        keys = [key for some in moves.values() for key in some]
        if not keys:
            comparing = self.controller.comparing
            self.context.say(f"not compared yet{comparing}" if comparing else "fits its class best")
            return
        name = f"{len(moves)} classes" if len(moves) > 1 else self.controller.names[next(iter(moves))]

        def move(session: Session) -> None:
            with session.one_edit():
                for class_id, some in moves.items():
                    session.move(some, class_id)

        self.context.edit(move, f"moved {self._called(keys)} to {name}{which}")

    def action_number(self, number: int) -> None:
        if (entry := class_of_number(self.context, number)) is not None:
            self._assign(self._selected_keys(), entry)

    def action_move(self) -> None:
        if keys := self._selected_keys():
            choose_class(self.context, f"Move {self._called(keys)} to class", partial(self._assign, keys))

    def _assign(self, keys: Sequence[str], target: ClassEntry) -> None:
        inside = {support.key for support in target.supports}
        if keys := [key for key in keys if key not in inside]:
            said = f"moved {self._called(keys)} to {target.name}"
            self.context.edit(lambda session: session.move(keys, target.id), said)

    def _called(self, keys: Sequence[str]) -> str:
        return called([path for path, of in self._keys.items() for key in of if key in keys])

    def action_remove(self) -> None:
        keys = self._selected_keys()
        if keys and self.entry is not None:
            whose = "their classes" if self.everywhere else self.entry.name
            said = f"removed {self._called(keys)} from {whose}"
            self.context.edit(lambda session: session.remove(keys), said)

    def action_none_of_these(self) -> None:
        keys = set(self._selected_keys())
        supports = [s for entry in self.controller.session.state.classes for s in entry.supports if s.key in keys]
        if supports:
            said = f"labelled {called([str(support.path) for support in supports])} as {OTHER}"
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
        marks = ["", *TITLES]
        counts = [f"{TITLES[mark]}  {len(self._everywhere(mark))}{self.controller.comparing}" for mark in marks[1:]]
        options = ["all photos of the class", *counts]
        self.context.ask(Choose("Show only photos", options), lambda index: self.show_everywhere(marks[index]))

    def action_misfits(self) -> None:
        self.show_everywhere("" if self.everywhere == "outlier" else "outlier")
        if self.everywhere:
            self.context.start(self._advise, group="advice")

    async def _advise(self) -> None:
        await self.controller.sync()
        if advice := await self.controller.engine.call(Advise()):
            self.context.say("   ".join(advice))

    def show_everywhere(self, mark: str) -> None:
        """Show the photos from all classes with a mark; if it is empty, those of the chosen class."""
        self.everywhere, self._listed, self.opens = mark, [], False
        self.context.screen.set_class(bool(mark), "-everywhere")
        self.gallery.least = SMALL_TILE if mark else MIN_TILE
        self.show(self.entry)
        self.gallery.cursor = 0
        self.screen.set_focus(self.gallery)

    def action_outlier(self, step: int) -> None:
        misfits, item = self._everywhere("outlier"), self.gallery.cursor_item
        paths = self.gallery.paths if self.everywhere == "outlier" else [misfit.path for _, misfit in misfits]
        if not paths:
            comparing = self.controller.comparing
            none = f"no misfit yet{comparing}" if comparing else "every photo fits its class"
            self.context.say("no misfit has this name" if misfits else none)
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
    """Answers in rows: a pile for each of three classes, and one of unknown photos. It has no keys."""

    ROWS, ACROSS = 4, 3

    def on_resize(self, event: events.Resize) -> None:
        self.tile_width = max((event.size.width + 1) // self.ACROSS - 1, 1)
        super().on_resize(event)

    def show(self, controller: Controller) -> None:
        piles: dict[str, list[QueryAnswer]] = {}
        for answer in controller.query.answers:
            if (best := best_score(answer)) is not None:
                named = controller.names.get(best["id"], "")
                piles.setdefault("?" if answer.get("unknown") else named, []).append(answer)
        unknown = sorted(piles.pop("?", []), key=lambda answer: answer.get("known", 0.0))
        full = [name for name in piles if len(piles[name]) >= self.ACROSS]  # only the last row may be shorter
        known = sorted(full, key=lambda name: -len(piles[name]))[: self.ROWS - 1]
        rows = [*((name, piles[name]) for name in known), ("?", unknown)]
        shown = [(name, answer) for name, pile in rows for answer in pile[: self.ACROSS]]
        self.set_items(
            GalleryItem(answer["path"], name, answer.get("key"), subject=tuple(subject_in(answer)))
            for name, answer in shown
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
    mark = "outlier" if rank > 0 or controller.known.get(key, 1.0) < controller.threshold else ""
    return GalleryItem(path, name, key, mark, f"its class explains {percent(share)}{odd}")
