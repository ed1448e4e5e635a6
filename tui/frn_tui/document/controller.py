"""The app's actions, independent of its screens: opening, saving, adding, classifying, correcting.

The app shows this state and calls its methods; a listener is notified of every change. Only this module edits
the session.
"""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from frn.errors import FrnError
from frn.inference.session import Duplicate, Session, State, Support
from frn_tui.client import file_requests
from frn_tui.client.file_requests import Found
from frn_tui.client.protocol import Answer, Compared, CompareModels, Confusion, Engine, GroupPhotos, HideAndTest
from frn_tui.document.queries import Problem, ShowProgress
from frn_tui.document.review_state import Reviewed, reviewed
from frn_tui.document.synced_document import SyncedDocument, support_of, told_to
from frn_tui.terminal.text import count_of


@dataclass(slots=True)
class Added:
    """Result of adding files."""

    added: int = 0
    broken: list[Problem] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    """Folders with invalid class names."""

    def __str__(self) -> str:
        others = (
            (self.duplicates, "already added"),
            (self.broken, "unreadable"),
            (self.refused, "with an invalid class name"),
        )
        return ", ".join([f"{self.added} added", *(f"{len(files)} {what}" for files, what in others if files)])


PART = 64
"""Photos of a folder that are opened together."""
TOLD_EVERY = 3.0
"""Seconds between updates of the engine with the classes read so far, while a folder is being opened."""


def not_added(count: int) -> str:
    """Describe photos that could not be added."""
    return "1 photo was not added" if count == 1 else f"{count:,} photos were not added"


class Controller(SyncedDocument):
    """Actions on the open document."""

    def __init__(self, engine: Engine, listener: Callable[[], None] = lambda: None) -> None:
        super().__init__(engine, listener)
        self.adding: list[dict[str, list[str]]] = []
        """Photos being added, by class."""
        self.coming: dict[int, int] = {}
        """Photos in the folders of the classes that are being opened, by class id."""
        self._came = asyncio.Event()
        """Set once some of them have arrived, or none will."""

    async def scan(self, path: str) -> Found:
        """Return the contents of a path; skipped rows and files become problems."""
        found = await self.engine.call(file_requests.ScanPath(path))
        told = [Problem(path, reason) for reason in found.get("skipped", [])]
        self.problems += [problem for problem in told if problem not in self.problems]
        return found

    async def holder(self, path: str) -> int | None:
        return await self.engine.call(file_requests.FindHolder(path))

    async def lock_again(self) -> None:
        """Lock the open project again, since its lock ended with the last engine."""
        await self.engine.call(file_requests.LockProject(self.project))

    async def start_anew(self) -> None:
        """Start without classes."""
        await self.engine.call(file_requests.LockProject(None))
        self.begin(State(threshold=self.first_threshold))
        await self.sync()

    async def open_folder(
        self, path: str | None, classes: dict[str, list[str]], progress: ShowProgress | None = None
    ) -> Added:
        """Open class folders in place of the document; not an edit, since they are on disk; None: the samples.

        The classes appear at once, even before the model. Their photos follow in batches; those that arrived stay
        if it is cancelled.
        """
        self.begin(State(threshold=self.first_threshold))
        session, outcome = self.session, Added()
        self.place = path
        opening = Session(session.state)
        ids = self._named_classes(opening, classes, outcome)
        self.problems += outcome.refused
        self._take_in(opening.state)
        if path is None:
            self.sample_classes = frozenset(ids.values())
        self.coming = {ids[name]: len(paths) for name, paths in classes.items() if name in ids}
        self._came.clear()
        self._changed()
        try:
            await self.engine.call(file_requests.LockProject(None))
            await self.sync()
            return await self._open_photos(classes, ids, outcome, progress)
        finally:
            self._came.set()
            if session is self.session:
                self.coming = {}
                self._changed()

    async def _open_photos(
        self, classes: dict[str, list[str]], ids: dict[str, int], outcome: Added, progress: ShowProgress | None
    ) -> Added:
        """Read the photos of the classes that are being opened, in batches."""
        session = self.session
        photos = [(ids[name], path) for name, paths in classes.items() if name in ids for path in paths]
        what, told = f"Opening {count_of(len(classes), 'class')}", time.monotonic()
        for first in range(0, len(photos), PART):
            part = photos[first : first + PART]
            told_part = _part_of(progress, first, len(photos))
            supports, broken = await self._embed([path for _, path in part], what, told_part)
            if session is not self.session:  # another document was opened meanwhile
                return Added()
            self._add_part(part, supports, outcome)
            outcome.broken += broken
            self.problems += broken
            if time.monotonic() - told > TOLD_EVERY:
                await self.sync()
                told = time.monotonic()
        await self.sync(progress)
        return outcome

    def _add_part(self, part: Sequence[tuple[int, str]], supports: Sequence[Support], outcome: Added) -> None:
        """Add some of the photos that are being opened; not an edit."""
        opening, by_path = Session(self.session.state), {str(support.path): support for support in supports}
        for class_id in dict.fromkeys(class_id for class_id, _ in part):
            found = [by_path[path] for of, path in part if of == class_id and path in by_path]
            if self.entry(class_id) is not None:  # otherwise it was deleted meanwhile
                duplicates = opening.add(class_id, found)
                outcome.added += len(found) - len(duplicates)
                outcome.duplicates += duplicates
        self._take_in(opening.state)
        self._came.set()

    def _named_classes(self, session: Session, names: Iterable[str], outcome: Added) -> dict[str, int]:
        """Create missing classes; return the ids of all with valid names."""
        ids = {}
        for name in names:
            there = session.state.named(name.strip())
            try:
                ids[name] = there.id if there is not None else session.create(name)
            except FrnError as error:  # the other folders may have valid names
                outcome.refused.append(Problem(name, str(error)))
        return ids

    async def load(self, path: str, progress: ShowProgress | None = None, *, copy: bool = False) -> None:
        """Open a project, replacing the document; if `copy`, saving asks for a new name."""
        found = await self.engine.call(file_requests.LoadProject(path))
        async with self._opening:
            if found.model != self.model_name:
                await self._open_model(found.model)
        if self.model is not None and self.model["sha256"] != found.sha256:
            self.problems.append(
                Problem(path, "was saved with another version of this model; its classes are enrolled again")
            )
        self.begin(found.state)
        self.project = None if copy else path
        await self.engine.call(file_requests.LockProject(self.project))
        await self.find_missing()
        await self.sync(progress)

    async def save(self, path: str, *, replace: bool = False) -> None:
        """Save the current project; edits made meanwhile remain unsaved."""
        session = self.session
        async with self.own_model():
            if session is not self.session:
                raise FrnError(f"{path}: was not saved, because another project was opened")
            state = session.state
            await self.engine.call(file_requests.SaveProject(path, state, replace))
        session.mark_saved(state)
        if session is self.session:  # no other project was opened meanwhile
            self.project, self.place, self.sample_classes = path, None, frozenset()
            await self.engine.call(file_requests.LockProject(path))
        self._changed()

    async def journal(self) -> None:
        """Save unsaved work and the photos being added, in case the app ends unexpectedly."""
        adding: dict[str, list[str]] = {}
        for name, paths in (pair for classes in self.adding for pair in classes.items()):
            adding[name] = list(dict.fromkeys([*adding.get(name, ()), *paths]))
        saved = self.session.is_saved and not adding
        await self.engine.call(
            file_requests.WriteJournal(self.session.state, self.model_name, self.project, self.place, adding, saved)
        )

    async def add(self, class_id: int, paths: Sequence[str], progress: ShowProgress | None = None) -> Added:
        """Add examples to a class, as one edit after all are embedded."""
        session, name = self.session, self.session.state.find(class_id).name
        with self.begun({name: list(paths)}):
            supports, broken = await self._embed(paths, f"Adding to {name}", progress)
        self._refuse_another(session, len(supports))
        if self.entry(class_id) is None:
            raise FrnError(f"{name} was deleted; {not_added(len(supports))}")
        duplicates = self.session.add(class_id, supports)
        if added := len(supports) - len(duplicates):
            self.session.name_act(f"added {count_of(added, 'photo')} to {name}")
        self.problems += broken
        await self.sync()
        return Added(added, broken, duplicates)

    async def add_classes(self, classes: dict[str, list[str]], progress: ShowProgress | None = None) -> Added:
        """Add each folder as a class, or as examples of an existing class, all in one edit."""
        session, everything = self.session, [path for paths in classes.values() for path in paths]
        with self.begun(classes):
            supports, broken = await self._embed(everything, f"Adding {count_of(len(classes), 'class')}", progress)
        self._refuse_another(session, len(supports))
        before = self.session.state
        outcome = self._make_classes(classes, supports, broken)
        if self.session.state is not before:
            self.session.name_act(f"added {count_of(outcome.added, 'photo')} to {count_of(len(classes), 'class')}")
        await self.sync()
        return outcome

    def _refuse_another(self, session: Session, count: int) -> None:
        """Raise FrnError if a different document is open now: photos belong to the document they were added to."""
        if session is not self.session:
            raise FrnError(f"another project was opened; {not_added(count)}")

    def _make_classes(self, classes: dict[str, list[str]], supports: Sequence[Support], broken: list[Problem]) -> Added:
        by_path = {str(support.path): support for support in supports}
        outcome = Added(broken=broken)
        self.problems += broken
        with self.session.one_edit():
            self.step_aside()
            for name, class_id in self._named_classes(self.session, classes, outcome).items():
                found = [by_path[path] for path in classes[name] if path in by_path]
                duplicates = self.session.add(class_id, found)
                outcome.added += len(found) - len(duplicates)
                outcome.duplicates += duplicates
        self.problems += outcome.refused
        return outcome

    @contextmanager
    def begun(self, classes: dict[str, list[str]]) -> Iterator[None]:
        """Register photos being added, so that they are recovered if the app is killed."""
        self.adding.append(classes)
        try:
            yield
        finally:
            self.adding.remove(classes)

    def reviewed(self) -> list[Reviewed]:
        """Return all answers with their review state; the arrangement is updated."""
        items = reviewed(self.query, self.session.state)
        self.arrangement.follow(items)
        return items

    def path_after(self, step: int) -> str:
        """Path of the answer that many steps further in the chosen order, wrapping around."""
        self.reviewed()
        paths = self.arrangement.paths
        shown = self.query.answer
        if not paths or shown is None:
            return self.query.shown
        at = paths.index(shown["path"]) + step if shown["path"] in paths else 0
        return paths[at % len(paths)]

    async def edit(self, change: Callable[[Session], object]) -> None:
        """Apply or undo an edit and update the engine; an FrnError means that nothing changed."""
        change(self.session)
        await self.sync()

    async def export(self, path: str, what: file_requests.Exported, *, replace: bool = False) -> None:
        """Write the classes for other programs."""
        await self.sync()
        await self.engine.call(file_requests.ExportClasses(path, what, replace))

    async def hide_and_test(self, shot: int) -> Confusion:
        """Measure the separation of the classes with `shot` examples of each."""
        await self.sync()
        return await self.engine.call(HideAndTest(shot))

    async def compare(self, models: list[str], progress: ShowProgress | None = None) -> Compared:
        """Compare models on the classes."""
        classes = self.session.state.classes
        examples = {entry.name: [str(s.path) for s in entry.supports] for entry in classes if entry.supports}
        return await self.engine.call(CompareModels(examples, models), told_to("Comparing models", progress))

    async def judge_again(self, progress: ShowProgress | None = None) -> None:
        """Classify all photos again, after a setting has changed."""
        self._renewed = None
        await self.sync(progress)

    async def group(self, paths: Sequence[str], progress: ShowProgress | None = None) -> list[list[str]]:
        """Make a class of each group of photos that probably belong together, as one edit; return the groups."""
        groups = await self.engine.call(GroupPhotos(list(paths)), told_to("Reading photos", progress))
        taken, first = set(self.names.values()), 1
        while any(f"group {first + place}" in taken for place in range(len(groups))):
            first += 1
        await self.add_classes({f"group {first + place}": found for place, found in enumerate(groups)}, progress)
        return groups

    async def show(self, path: str) -> None:
        """Show one of the answers with its error maps."""
        self.query.show(path)
        await self.sync()
        await self.query.add_maps()

    async def ask(self, paths: Sequence[str], progress: ShowProgress | None = None) -> None:
        if self.coming:
            await self._came.wait()
        await self.sync(progress)
        if not self._has_examples:
            raise FrnError("no class has an example yet; add photos to a class first")
        state = self.session.state
        self.session.amend(dataclasses.replace(state, dropped=state.dropped.difference(paths)))
        told = await self.query.ask(paths, progress)
        asked = set(paths)
        self.problems = [problem for problem in self.problems if problem.path not in asked] + told
        self._changed()
        await self.query.add_maps()

    def correct(self, class_id: int) -> Added:
        """Label the shown photo with a class and add it as an example; `sync` updates the engine."""
        return self.label([] if self.query.answer is None else [self.query.answer], class_id)

    def label(self, answers: Sequence[Answer], class_id: int) -> Added:
        """Label photos with a class and add them as examples, in one edit; `sync` updates the engine.

        An example of another class moves to this one.
        """
        supports = [support_of(answer) for answer in answers if "key" in answer]
        if not supports:
            raise FrnError("no photo to add as an example")
        name = self.session.state.find(class_id).name
        with self.session.one_edit():
            twins = self.session.add(class_id, supports)
            elsewhere = [twin.key for twin in twins if twin.class_name != name]
            if elsewhere:
                self.session.move(elsewhere, class_id)
        there = [twin for twin in twins if twin.class_name == name]
        return Added(len(supports) - len(there), [], there)

    def set_aside(self, answers: Sequence[Answer]) -> int:
        """Record that photos belong to none of the classes, in one edit; return how many."""
        supports = [support_of(answer) for answer in answers if "key" in answer]
        self.session.set_aside(supports)
        return len(supports)


def _part_of(progress: ShowProgress | None, first: int, count: int) -> ShowProgress | None:
    """Progress of a part, reported as progress of the whole."""
    if progress is None:
        return None
    return lambda what, done, total: progress(what, first + done, count)
