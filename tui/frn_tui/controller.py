"""What the app does, whatever it looks like: edits of the session, and keeping the engine's classes in step with them.

The app shows what is here and calls its methods; a listener is told when something has changed. Only this module edits
the session.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from frn.errors import FrnError
from frn.inference.session import Duplicate, Session, State, Support
from frn_tui import file_requests, protocol
from frn_tui.document import Document
from frn_tui.engine_process import EngineError
from frn_tui.file_requests import Found
from frn_tui.protocol import Answer, ClassReport, Engine, Model
from frn_tui.query import Problem, Query, ShowProgress
from frn_tui.review import Arrangement, Reviewed, reviewed
from frn_tui.serialization import state_from_json, state_to_json, support_from_json


@dataclass(slots=True)
class Added:
    """What came of adding files."""

    added: int = 0
    broken: list[Problem] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)

    def __str__(self) -> str:
        others = ((self.duplicates, "there already"), (self.broken, "cannot be read"))
        return ", ".join([f"{self.added} added", *(f"{len(files)} {what}" for files, what in others if files)])


class Controller(Document):
    """The session, what the engine says of it, and the queries."""

    def __init__(self, engine: Engine, listener: Callable[[], None] = lambda: None) -> None:
        self.engine = engine
        self.listener = listener
        """Called after every change of what is shown."""
        super().__init__()
        self.missing: frozenset[str] = frozenset()
        """Paths of examples that are not where they were."""
        self.left_out: frozenset[str] = frozenset()
        """Keys of those among them that do not count: nothing is known of them but their names."""
        self.model: Model | None = None
        self.reports: dict[int, ClassReport] = {}
        self.threshold = 0.0
        self.calibrated = 0.0
        self.adding: list[dict[str, list[str]]] = []
        """Photos that are being added, by class."""
        self.problems: list[Problem] = []
        self.query = Query(engine, self._changed)
        self.arrangement = Arrangement()
        """Which of the answers to go through, and in which order."""
        self._synced: State | None = None
        self._syncing = asyncio.Lock()

    def _changed(self) -> None:
        self.listener()

    def begin(self, state: State, *, is_saved: bool = True) -> None:
        super().begin(state, is_saved=is_saved)
        self.missing = self.left_out = frozenset()
        self.query.clear()

    def step_aside(self) -> bool:
        if aside := super().step_aside():
            self.query.clear()
        return aside

    async def open_model(self, name: str) -> None:
        """Open a model; examples are embedded anew by it."""
        self.model = await self.engine.call(protocol.OpenModel(name))
        self.model_name = name
        self._synced = None
        self._changed()

    async def change_model(self, name: str, progress: ShowProgress | None = None) -> None:
        """Look at the classes with another model: an edit like any other."""
        await self.open_model(name)
        self.session.replace_state(dataclasses.replace(self.session.state, model=name))
        await self.sync(progress)

    async def scan(self, path: str) -> Found:
        return await self.engine.call(file_requests.ScanPath(path))

    async def holder(self, path: str) -> int | None:
        return (await self.engine.call(file_requests.FindHolder(path)))["holder"]

    async def start_anew(self) -> None:
        """Begin with no class."""
        await self.engine.call(file_requests.LockProject(None))
        self.begin(State(threshold=self.first_threshold))
        await self.sync()

    async def open_folder(
        self, path: str | None, classes: dict[str, list[str]], progress: ShowProgress | None = None
    ) -> Added:
        """Open class folders in place of what is there: no edit, as they are on the disk; None: the samples."""
        await self.start_anew()
        session, begun = self.session, self.session.state
        self.place = path
        everything = [path for paths in classes.values() for path in paths]
        supports, broken = await self._embed(everything, f"Opening {len(classes)} classes", progress)
        if session is not self.session:  # another was opened meanwhile
            return Added()
        unedited = session.state is begun
        outcome = self._make_classes(classes, supports, broken)
        if unedited:
            self.session = Session(session.state)
        if path is None:
            self.sample_classes = frozenset(self.names)
        await self.sync(progress)
        return outcome

    async def load(self, path: str, progress: ShowProgress | None = None, *, copy: bool = False) -> None:
        """Open a project in place of what is there; of a copy only the classes, so that saving asks for a name."""
        found = await self.engine.call(file_requests.LoadProject(path))
        if found["model"] != self.model_name:
            await self.open_model(found["model"])
        if self.model is not None and self.model["sha256"] != found["sha256"]:
            self.problems.append(
                Problem(path, "was made with another version of this model; its classes are made anew")
            )
        self.begin(state_from_json(found["state"]))
        self.project = None if copy else path
        await self.engine.call(file_requests.LockProject(self.project))
        await self.find_missing()
        await self.sync(progress)

    async def find_missing(self) -> None:
        """Look which examples are not where they were."""
        paths = [str(support.path) for entry in self.session.state.classes for support in entry.supports]
        self.missing = frozenset((await self.engine.call(file_requests.FindMissing(paths)))["missing"])
        self._changed()

    async def save(self, path: str, *, replace: bool = False) -> None:
        """Write the project as it is now; edits that are made meanwhile are unsaved."""
        session, state = self.session, self.session.state
        await self.engine.call(file_requests.SaveProject(path, state_to_json(state), replace))
        session.mark_saved(state)
        if session is self.session:  # no other was opened meanwhile
            self.project, self.place, self.sample_classes = path, None, frozenset()
            await self.engine.call(file_requests.LockProject(path))
        self._changed()

    async def journal(self) -> None:
        """Keep what is unsaved, and what is being added, in case the app ends without a word."""
        adding: dict[str, list[str]] = {}
        for name, paths in (pair for classes in self.adding for pair in classes.items()):
            adding[name] = list(dict.fromkeys([*adding.get(name, ()), *paths]))
        saved = self.session.is_saved and not adding
        state = state_to_json(self.session.state)
        await self.engine.call(
            file_requests.WriteJournal(state, self.model_name, self.project, self.place, adding, saved)
        )

    async def add(self, class_id: int, paths: Sequence[str], progress: ShowProgress | None = None) -> Added:
        """Make photos examples of a class; one edit for all of them, made when the last is embedded."""
        name = self.session.state.find(class_id).name
        with self.begun({name: list(paths)}):
            supports, broken = await self._embed(paths, f"Adding to {name}", progress)
        duplicates = self.session.add(class_id, supports)
        self.problems += broken
        await self.sync()
        return Added(len(supports) - len(duplicates), broken, duplicates)

    async def add_classes(self, classes: dict[str, list[str]], progress: ShowProgress | None = None) -> Added:
        """Make a class of each folder; one that is there already gets more examples. One edit for all."""
        everything = [path for paths in classes.values() for path in paths]
        with self.begun(classes):
            supports, broken = await self._embed(everything, f"Adding {len(classes)} classes", progress)
        outcome = self._make_classes(classes, supports, broken)
        await self.sync()
        return outcome

    def _make_classes(self, classes: dict[str, list[str]], supports: Sequence[Support], broken: list[Problem]) -> Added:
        by_path = {str(support.path): support for support in supports}
        outcome = Added(broken=broken)
        self.problems += broken
        with self.session.one_edit():
            self.step_aside()
            for name, paths in classes.items():
                there = self.session.state.named(name)
                class_id = there.id if there is not None else self.session.create(name)
                found = [by_path[path] for path in paths if path in by_path]
                duplicates = self.session.add(class_id, found)
                outcome.added += len(found) - len(duplicates)
                outcome.duplicates += duplicates
        return outcome

    @contextmanager
    def begun(self, classes: dict[str, list[str]]) -> Iterator[None]:
        """While photos are being added: an app that is killed meanwhile goes on with them."""
        self.adding.append(classes)
        try:
            yield
        finally:
            self.adding.remove(classes)

    async def sync(self, progress: ShowProgress | None = None) -> None:
        """Tell the engine the classes, embed what it lacks, and take its reports; then ask the query on show again."""
        self._changed()
        async with self._syncing:  # edits may come faster than answers: the last one counts
            await self._follow_model()
            state = self.session.state
            if state is self._synced or self.model is None:
                return
            done = await self.engine.call(protocol.SetClasses(state_to_json(state)))
            left_out: frozenset[str] = frozenset()
            if done["missing"]:
                missing = set(done["missing"])
                paths = [str(s.path) for entry in state.classes for s in entry.supports if s.key in missing]
                found, broken = await self._embed(paths, "Reading examples", progress)
                self.problems += broken
                self._follow_changes(found)
                done = await self.engine.call(protocol.SetClasses(state_to_json(self.session.state)))
                if left_out := frozenset(done["missing"]):  # their files are away, and nothing is known of them
                    rest = _without(self.session.state, left_out)
                    done = await self.engine.call(protocol.SetClasses(state_to_json(rest)))
            self.left_out = left_out
            self._synced = self.session.state
            self.reports = {report["id"]: report for report in done["reports"]}
            self.threshold, self.calibrated = done["threshold"], done["calibrated"]
        self._changed()
        if self.query.answers and self._has_examples:
            state = self.session.state
            await self.query.ask_again(lambda: state is self.session.state)
        elif self.query.answers:
            self.query.forget_scores("there is no class with an example")
            self._changed()

    async def _follow_model(self) -> None:
        """Open the model of a state that was gone back to; where it cannot be opened, the one on hand stays."""
        wanted = self.session.state.model
        if wanted and wanted != self.model_name:
            try:
                await self.open_model(wanted)
            except EngineError:
                self.session.amend(dataclasses.replace(self.session.state, model=self.model_name))
                raise

    def _follow_changes(self, found: Sequence[Support]) -> None:
        """A file may have changed since the project was saved: its new content takes the old one's place."""
        holders = self.session.state.holders()
        changed = {str(support.path): support for support in found if support.key not in holders}
        if not changed:
            return
        fresh = Session(self.session.state)
        for entry in self.session.state.classes:
            old = [support for support in entry.supports if str(support.path) in changed]
            if old:
                fresh.remove(support.key for support in old)
                fresh.add(entry.id, [changed[str(support.path)] for support in old])
                self.problems += [
                    Problem(str(s.path), "has changed since it was added; used as it is now") for s in old
                ]
        self.session.amend(fresh.state)  # as an edit, undo could never get past it

    async def _embed(
        self, paths: Sequence[str], what: str, progress: ShowProgress | None
    ) -> tuple[list[Support], list[Problem]]:
        supports: list[Support] = []
        broken: list[Problem] = []

        on_progress = told_to(what, progress)

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "progress":
                on_progress(event)
            elif event["event"] == "embedded" and "key" in event:
                supports.append(support_from_json(event))
            elif event["event"] == "embedded":
                broken.append(Problem(event["path"], event["reason"]))

        if paths:
            await self.engine.call(protocol.EmbedImages(list(paths)), on_event)
        return supports, broken

    def reviewed(self) -> list[Reviewed]:
        """All answers with what has become of them; the arrangement follows."""
        items = reviewed(self.query, self.session.state)
        self.arrangement.follow(items)
        return items

    def place_after(self, step: int) -> int:
        """The answer so many steps further in the order that was chosen, round the end."""
        self.reviewed()
        paths = self.arrangement.paths
        places = {answer["path"]: place for place, answer in enumerate(self.query.answers)}
        shown = self.query.answer
        if not paths or shown is None:
            return self.query.at
        at = paths.index(shown["path"]) + step if shown["path"] in paths else 0
        return places.get(paths[at % len(paths)], self.query.at)

    async def edit(self, change: Callable[[Session], object]) -> None:
        """Make an edit (or take one back) and bring the engine in step; an FrnError has changed nothing."""
        change(self.session)
        await self.sync()

    async def export(self, path: str, *, replace: bool = False) -> None:
        """Write the whole classifier as one ONNX file, or into an .npz the numbers of its classes."""
        arrays = path.lower().endswith(".npz")
        await self.engine.call(file_requests.ExportClasses(path, "arrays" if arrays else "classifier", replace))

    async def ask(self, paths: Sequence[str], progress: ShowProgress | None = None) -> None:
        if not self._has_examples:
            raise FrnError("there is no class with an example yet: add photos to one first")
        self.problems += await self.query.ask(paths, progress)
        self._changed()
        await self.query.add_maps()

    @property
    def _has_examples(self) -> bool:
        return any(s.key not in self.left_out for entry in self.session.state.classes for s in entry.supports)

    def correct(self, class_id: int) -> Added:
        """Say which class the photo on show is of, and make it an example; `sync` tells the engine."""
        return self.label([] if self.query.answer is None else [self.query.answer], class_id)

    def label(self, answers: Sequence[Answer], class_id: int) -> Added:
        """Say which class photos are of, and make them examples of that, in one edit; `sync` tells the engine.

        An example of another class moves: it was said to be of that.
        """
        supports = [support_from_json(answer) for answer in answers if "key" in answer]
        if not supports:
            raise FrnError("there is no photo on show that could become an example")
        name = self.session.state.find(class_id).name
        with self.session.one_edit():
            twins = self.session.add(class_id, supports)
            elsewhere = [twin.key for twin in twins if twin.class_name != name]
            if elsewhere:
                self.session.move(elsewhere, class_id)
        there = [twin for twin in twins if twin.class_name == name]
        return Added(len(supports) - len(there), [], there)


def told_to(what: str, progress: ShowProgress | None) -> Callable[[dict[str, Any]], None]:
    """Passes progress events on."""

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "progress" and progress is not None:
            progress(what, event["done"], event["total"])

    return on_event


def _without(state: State, keys: frozenset[str]) -> State:
    classes = tuple(
        dataclasses.replace(entry, supports=tuple(s for s in entry.supports if s.key not in keys))
        for entry in state.classes
    )
    return dataclasses.replace(state, classes=classes)
