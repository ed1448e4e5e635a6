"""The classes: created, renamed, filled with photos, tested."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Static

from frn.inference.session import ClassEntry
from frn.models.zoo import named_extractors
from frn_tui.client.protocol import ClassReport, ModelScore
from frn_tui.dialogs.confusion import confusion_table
from frn_tui.dialogs.dialogs import AskText, Choose, Page
from frn_tui.document.controller import Added
from frn_tui.document.queries import Problem
from frn_tui.panes.context import Context, Pane
from frn_tui.panes.guide import Guide
from frn_tui.panes.project import ProjectBar
from frn_tui.panes.verdicts import choose_class
from frn_tui.terminal.paths import absolute, name_of, natural_order
from frn_tui.terminal.text import count_of, display_name, percent
from frn_tui.widgets.class_list import ClassList, ClassRow

ORDERS: dict[str, Callable[[ClassRow], object] | None] = {
    "number": None,
    "quality": lambda row: (row.quality is None, row.quality or 0.0),
    "size": lambda row: row.images,
    "name": lambda row: natural_order(row.name),
}
MANY = 500
"""Number of photos above which adding asks first."""


class ClassesPane(Pane):
    """List of the classes, one of which is chosen."""

    @dataclass
    class Differing(Message):
        """Photos on which models disagree should be shown."""

        paths: list[str]

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="classes-pane")
        self.list, self.guide = ClassList(id="classes"), Guide(context.controller)
        self.order = "number"
        self.chosen: int | None = None
        """Id of the class whose photos are shown."""

    def compose(self) -> ComposeResult:
        yield self.list
        yield Static(
            "Press a to pick a folder of class folders, or A to create a class.\n\n"
            "Five photos per class are enough.\n\nctrl+o opens recent projects.",
            id="teach",
        )
        yield self.guide

    @property
    def entry(self) -> ClassEntry | None:
        return next((entry for entry in self.controller.session.state.classes if entry.id == self.chosen), None)

    def show(self) -> None:
        classes = self.controller.session.state.classes
        if self.entry is None:
            self.chosen = classes[0].id if classes else None
        reports = self.controller.reports
        missing = self.controller.missing
        coming = self.controller.coming
        rows = [
            _row(number, entry, reports.get(entry.id), missing, coming.get(entry.id, 0))
            for number, entry in enumerate(classes, 1)
        ]
        if (key := ORDERS[self.order]) is not None:
            rows.sort(key=key)  # type: ignore[arg-type]  # the keys of one order are alike
        self.list.show(rows)
        by = "" if self.order == "number" else f" · by {self.order}"
        self.border_title = Text(f"Classes {len(classes)}{by}")
        self.query_one("#teach").display = not classes
        self.guide.show()

    @on(ClassList.Chosen)
    def choose(self, event: ClassList.Chosen) -> None:
        self.chosen = event.class_id

    def action_remove(self) -> None:
        if (entry := self.entry) is not None:
            said = f"deleted {entry.name}, {count_of(len(entry.supports), 'photo')}"
            self.context.edit(lambda session: session.delete(entry.id), said)

    def action_find(self) -> None:
        choose_class(self.context, "Find a class", lambda entry: self.list.choose(entry.id))

    def action_new_class(self) -> None:
        dialog = AskText("New class", hint="name of the class   enter: done   esc: back")
        self.context.ask(
            dialog,
            lambda name: self.context.edit(lambda _: self._take(self.controller.create(name)), f"created class {name}"),
        )

    def _take(self, class_id: int) -> None:
        self.chosen = class_id
        self.call_after_refresh(self.list.choose, class_id)  # after it has been added to the list

    def action_rename(self) -> None:
        if (entry := self.entry) is not None:
            dialog = AskText(f"Rename {display_name(entry.name, 40)}", entry.name)
            self.context.ask(dialog, lambda name: self._rename(entry, name))

    def _rename(self, entry: ClassEntry, name: str) -> None:
        """Rename a class; another class's name merges the two after confirmation."""
        other = self.controller.session.state.named(name.strip())
        if other is None or other.id == entry.id:
            self.context.edit(lambda session: session.rename(entry.id, name), f"renamed {entry.name} to {name}")
            return

        def chosen(index: int) -> None:
            if index == 0:
                said = f"merged {entry.name} into {other.name}"
                self.context.edit(lambda session: session.merge(entry.id, other.id), said)

        photos = count_of(len(entry.supports), "photo")
        title = f"A class {display_name(other.name, 40)} already exists"
        self.context.ask(Choose(title, [f"merge: move its {photos} to that class", "cancel"]), chosen)

    def action_add(self) -> None:
        own = self.entry is not None and not self.controller.shows_samples
        where = f"to {display_name(self.entry.name, 40)}" if own and self.entry else "for your first class"
        self.context.pick(f"Add photos {where}, or classes in a folder, zip or CSV", self.add)

    def add(self, paths: Sequence[str]) -> None:
        self.context.start(self.add_now, paths)

    async def add_now(self, paths: Sequence[str]) -> None:
        files: list[str] = []
        folders: dict[str, list[str]] = {}
        for path in paths:
            found = await self.controller.scan(path)
            if found["kind"] in ("project", "bundle"):
                self.post_message(ProjectBar.Picked(path))
                return
            if found["kind"] == "classes":
                classes = await self.fewer(found["classes"])
                if classes is None:
                    return
                self._tell(await self.controller.add_classes(classes, self.context.progress))
            elif found["kind"] == "nothing":
                self.context.say(found.get("reason", f"{path}: has no photos to add"), severity="warning")
            elif found["kind"] == "folder":
                folders.setdefault(name_of(absolute(path)), []).extend(found["files"])
            else:
                files += found["files"]
        if folders and not await self._add_folders(folders):
            return
        begun = self.chosen is not None and not self.controller.shows_samples
        if files and (begun or await self._make_class_for(files[0])):
            assert self.chosen is not None
            self._tell(await self.controller.add(self.chosen, files, self.context.progress))

    async def _add_folders(self, folders: dict[str, list[str]]) -> bool:
        """Create classes from folders of photos; a single folder fills a new empty class or gets a chosen name."""
        (first, photos), *others = folders.items()
        if not others:
            name: str | None
            if self.entry is not None and not self.entry.supports:
                name = self.entry.name
            else:
                hint = "suggested: the folder's name; an existing class gets more photos   enter: done   esc: back"
                title = f"Class for the {count_of(len(photos), 'photo')}"
                name = await self.app.push_screen_wait(AskText(title, first, hint))
            if name is None:
                return False
            folders = {name.strip(): photos}
        classes = await self.fewer(folders)
        if classes is not None:
            self._tell(await self.controller.add_classes(classes, self.context.progress))
        return classes is not None

    async def _make_class_for(self, path: str) -> bool:
        """Ask for the name of a first class; return whether it was created."""
        folder = path.rpartition("/")[0].rpartition("/")[2] or "class 1"
        name = await self.app.push_screen_wait(AskText("Name of the class", folder))
        if name is None:
            return False
        await self.controller.edit(lambda _: self._take(self.controller.create(name)))
        return True

    async def fewer(self, classes: dict[str, list[str]]) -> dict[str, list[str]] | None:
        """Offer to add only some photos of each class, because many take long and help little."""
        count = sum(map(len, classes.values()))
        if count <= MANY:
            return classes
        options = ["20 of each class", "5 of each class", f"all {count:,} photos"]
        title = f"Add {count_of(count, 'photo')} in {count_of(len(classes), 'class')}"
        chosen = await self.context.chosen(title, options)
        if chosen is None:
            return None
        most = (20, 5, count)[chosen]
        return {
            name: [files[i * len(files) // most] for i in range(most)] if len(files) > most else files
            for name, files in classes.items()
        }

    def tell_of_troubles(self, outcome: Added) -> None:
        """List the skipped files."""
        if outcome.duplicates:
            self.controller.problems += [Problem(str(d.path), str(d).partition(": ")[2]) for d in outcome.duplicates]
            self.controller.listener()

    def _tell(self, outcome: Added) -> None:
        self.tell_of_troubles(outcome)
        if outcome.added:
            self.context.say(f"{outcome}   u: undo")
        else:
            self.context.say(str(outcome), severity="warning")

    def action_sort(self) -> None:
        """Sort orders: by number, worst first, fewest photos first, by name."""
        orders = list(ORDERS)
        self.order = orders[(orders.index(self.order) + 1) % len(orders)]
        self.show()

    def action_compare(self) -> None:
        self.context.start(self._compare)

    async def _compare(self) -> None:
        """Compare the installed models on the classes, and switch to one of them."""
        found = await self.controller.compare(list(named_extractors()), self.context.progress)
        now = self.controller.model_name
        options = [f"{'●' if score['model'] == now else ' '} {_compared(score)}" for score in found["scores"]]
        photos = count_of(len(found["differing"]), "photo")
        if found["differing"]:
            options.append(f"  show the {photos} with different answers")
        title = f"Leave-one-out accuracy; {photos} with different answers"
        chosen = await self.context.chosen(title, options)
        if chosen == len(found["scores"]):
            self.post_message(self.Differing(found["differing"]))
        elif chosen is not None and found["scores"][chosen]["model"] != now:
            await self.controller.change_model(found["scores"][chosen]["model"], self.context.progress)
            self.context.say(f"model {self.controller.model_name}   u: undo")

    def action_confusion(self) -> None:
        def asked(text: str) -> None:
            if text.isdecimal() and len(text) < 5 and int(text) > 0:  # "²" is a digit but not a number
                self.context.start(self._confusion, int(text))
            else:
                self.context.say("type a number of at least 1", severity="warning")

        hint = "examples of each class to enroll; the others are classified"
        self.context.ask(AskText("Hide and test: examples per class", "1", hint), asked)

    async def _confusion(self, shot: int) -> None:
        found = await self.controller.hide_and_test(shot)
        self.app.push_screen(
            Page("Hide and test", confusion_table(found, self.controller.names, shot), classes="-wide-page")
        )


def _compared(score: ModelScore) -> str:
    """Return a model's score in one line."""
    low, high = score["interval"]
    right = f"{percent(score['right'] / score['photos'], 1):>7} ({100 * low:.0f} to {percent(high)})"
    auroc = "" if score["auroc"] is None else f"  AUROC {score['auroc']:.2f}"
    return f"{score['model']:<14} {right}{auroc}  {score['milliseconds']:.0f} ms  {score['bytes'] / 1e6:.1f} MB"


def _row(number: int, entry: ClassEntry, report: ClassReport | None, missing: Set[str], coming: int) -> ClassRow:
    trouble = "" if coming else {0: "empty", 1: "one photo"}.get(len(entry.supports), "")
    if missing and (away := sum(str(support.path) in missing for support in entry.supports)):
        trouble = f"{away} missing"
    quality = None
    if report is not None and report["rank"]:  # leave-one-out accuracy of the class
        quality = sum(rank == 0 for rank in report["rank"].values()) / len(report["rank"])
    return ClassRow(entry.id, entry.name, max(len(entry.supports), coming), quality, trouble, number)
