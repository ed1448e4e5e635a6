"""The classes: created, renamed, filled with photos, tested."""

from collections.abc import Callable, Sequence

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.widgets import OptionList, Static

from frn.projects.names import natural_order
from frn.projects.session import ClassEntry
from frn_tui.dialogs.dialogs import AskText
from frn_tui.document.controller import Added, Controller
from frn_tui.document.queries import Problem
from frn_tui.panes.context import Context, Pane
from frn_tui.panes.verdicts import choose_class, rename_class
from frn_tui.terminal.modes import MODES
from frn_tui.terminal.paths import absolute, name_of
from frn_tui.terminal.text import count_of, display_name
from frn_tui.widgets.lists import ClassList, ClassRow

STEPS = (
    "press . to see the next",
    "press a to add your own folders, one per class",
    "press p to classify your own photo",
)
SHARPER = "sharp photos: frn-tui --web, or kitty, Ghostty, WezTerm, foot"
"""Shown if the terminal cannot draw pixels. `--web` says which extra it needs."""
ORDERS: dict[str, Callable[[ClassRow], object] | None] = {
    "number": None,
    "quality": lambda row: (row.quality is None, row.quality or 0.0),
    "size": lambda row: row.images,
    "name": lambda row: natural_order(row.name),
}


class ClassesPane(Pane):
    """List of the classes, one of which is chosen."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="classes-pane")
        self.list, self.guide = ClassList(id="classes"), Guide(context)
        self.order = "number"
        self.chosen: int | None = None
        self._highlighted: int | None = None

    def compose(self) -> ComposeResult:
        yield self.list
        yield Static(
            "Press a to pick a folder of class folders, or A to create a class. "
            "Or drop folders here, or paste their paths: each becomes a class.\n\n"
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
        rows = [_row(number, entry, self.controller) for number, entry in enumerate(classes, 1)]
        if (key := ORDERS[self.order]) is not None:
            rows.sort(key=key)  # type: ignore[arg-type]  # the keys of one order are alike
        self.list.show(rows)
        by = "" if self.order == "number" else f" · by {self.order}"
        self.border_title = Text(f"Classes {len(classes)}{by}{self.controller.comparing}")
        rated = any(row.quality is not None for row in rows)
        self.border_subtitle = "●●● 90%  ●●○ 70% right" if rated else ""
        self.query_one("#teach").display = not classes
        self.guide.show()

    @on(OptionList.OptionHighlighted)
    def choose(self) -> None:
        if self.list.chosen_id not in (None, self._highlighted):
            self.chosen = self._highlighted = self.list.chosen_id

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
            rename_class(self.context, entry)

    def action_add(self) -> None:
        is_own = self.entry is not None and not self.controller.shows_samples
        where = f"to {display_name(self.entry.name, 40)}" if is_own and self.entry else "for your first class"
        self.context.pick(f"Add photos {where}, or classes in a folder, zip or CSV", self.add)

    def add(self, paths: Sequence[str]) -> None:
        self.context.start(self.add_now, paths)

    async def add_now(self, paths: Sequence[str]) -> None:
        """Add photos to the chosen class, and folders as classes with the folders' names."""
        files: list[str] = []
        unusable: list[Problem] = []
        classes: dict[str, list[str]] = {}
        target = self.entry  # another class may be chosen meanwhile
        fills_class = len(paths) == 1 and target is not None and not target.supports
        for path in paths:
            contents = await self.context.classes_in(path)
            if contents["kind"] in ("project", "bundle"):
                self.context.open(path)
                return
            if contents["kind"] == "nothing":
                unusable.append(Problem(path, contents.get("reason", f"{path}: has no photos to add")))
            members = contents["classes"]
            if contents["kind"] == "folder" and not fills_class:
                members = {name_of(absolute(path)): contents["files"]}
            elif contents["kind"] != "classes":
                files += contents["files"]
            for name, photos in members.items():
                classes.setdefault(name, []).extend(photos)
        self.context.tell_of_unusable(unusable)
        if files and (target is None or self.controller.shows_samples):
            classes.setdefault(files[0].rpartition("/")[0].rpartition("/")[2] or "class 1", []).extend(files)
        elif files and target is not None:
            self._tell(await self.controller.add(target.id, files), f" to {target.name}")
        if classes:
            self._tell(await self.controller.add_classes(classes))

    def _tell(self, outcome: Added, where: str = "") -> None:
        self.context.list_duplicates(outcome)
        if outcome.added:
            self.context.say(f"{outcome}{where}   u: undo")
        else:
            self.context.say(str(outcome), severity="warning")

    def action_sort(self) -> None:
        orders = list(ORDERS)
        self.order = orders[(orders.index(self.order) + 1) % len(orders)]
        self.show()


class Guide(Static):
    """Shown with the samples; ticks completed steps and disappears for good once all are done."""

    def __init__(self, context: Context) -> None:
        super().__init__(id="guide")
        self.context = context
        self._begun, self._done = False, 0

    def show(self) -> None:
        controller = self.context.controller
        self._begun = self._begun or controller.shows_samples
        self.display = self._begun and not self.context.settings.guided
        if not self.display:
            return
        if controller.session.state.classes and not controller.shows_samples:  # these replace the samples' answers
            self._done = 3 if controller.query.answers else 2
        elif controller.query.at > 0:
            self._done = max(self._done, 1)
        if self._done == len(STEPS):
            self.context.change(guided=True)
            self.display = False
        lines = [f"{'✓' if number <= self._done else '·'} {step}" for number, step in enumerate(STEPS, 1)]
        if self.context.mode in MODES:
            lines.append(f"\n{SHARPER}")
        self.update(Text("\n".join(lines)))


def _row(number: int, entry: ClassEntry, controller: Controller) -> ClassRow:
    report, missing, coming = controller.reports.get(entry.id), controller.missing, controller.coming.get(entry.id, 0)
    trouble = "" if coming else {0: "empty", 1: "one photo"}.get(len(entry.supports), "")
    if missing and (away := sum(str(support.path) in missing for support in entry.supports)):
        trouble = f"{away} missing"
    quality = None
    if report is not None and report["rank"]:  # leave-one-out accuracy of the class
        quality = sum(rank == 0 for rank in report["rank"].values()) / len(report["rank"])
    return ClassRow(entry.id, number, entry.name, max(len(entry.supports), coming), quality, trouble)
