"""The app's actions, independent of its screens: opening, saving, adding, classifying, correcting.

The app shows this state and calls its methods; a listener is notified of every change. Only this module edits
the session.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from frn.errors import FrnError
from frn.images.boxes import Box, box_name
from frn.projects.names import is_no_class
from frn.projects.session import Duplicate, Find, Session, State, Support, in_both
from frn_tui.client import file_requests
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import PathContents
from frn_tui.client.protocol import EngineError, GroupPhotos, QueryAnswer
from frn_tui.document.queries import Problem
from frn_tui.document.review_state import OTHER, Reviewed, reviewed
from frn_tui.document.synced_document import SyncedDocument, support_of
from frn_tui.terminal.text import count_of


@dataclass(slots=True)
class Added:
    added: int = 0
    broken: list[Problem] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    shared: dict[str, Problem] = field(default_factory=dict)  # photos of two classes by key, which neither uses
    refused: list[Problem] = field(default_factory=list)  # folders with invalid class names

    def __str__(self) -> str:
        others = (
            (self.duplicates, "already added"),
            (self.shared, "in two classes"),
            (self.broken, "unreadable"),
            (self.refused, "with an invalid class name"),
        )
        return ", ".join([f"{self.added} added", *(f"{len(files)} {what}" for files, what in others if files)])


NO_CLASS = 0  # in place of a class id: photos that belong to none of the classes
PART = 64  # photos of a folder that are opened together
SEARCHED = "found subjects"  # description of the edit that starts the search for subjects


class Controller(SyncedDocument):
    """Actions on the open document."""

    def __init__(self, engine: EngineClient, listener: Callable[[], None] = lambda: None) -> None:
        super().__init__(engine, listener)
        self.adding: list[dict[str, list[str]]] = []  # photos being added, by class
        self.moving = asyncio.Lock()  # held while photos are moved, so that one move ends before its undo begins
        self._saving = asyncio.Lock()  # held while the project is saved, so that a later journal names it
        self._came = asyncio.Event()  # set once some of them have arrived, or none will

    async def scan(self, path: str, level: int | None = None) -> PathContents:
        """Return the contents of a path; skipped rows and files become problems."""
        scanned = await self.engine.call(file_requests.ScanPath(path, level))
        self.report_skipped(path, scanned)
        return scanned

    def report_skipped(self, path: str, scanned: PathContents) -> None:
        skipped = [Problem(path, reason) for reason in scanned.get("skipped", [])]
        self.problems += [problem for problem in skipped if problem not in self.problems]

    async def holder(self, path: str) -> int | None:
        return await self.engine.call(file_requests.FindHolder(path))

    async def open_folder(self, path: str | None, classes: dict[str, list[str]]) -> Added:
        """Replace the document by class folders. This is not an edit, since they are on disk.

        No folders give an empty document; folders without a path are the samples. The classes appear immediately, even
        before the model. Their photos follow in batches; those that arrived stay if it is cancelled.
        """
        self.begin(State())
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
        self.listener()
        try:
            await self.engine.call(file_requests.LockProject(None))
            await self.sync()
            return await self._open_photos(classes, ids, outcome)
        finally:
            self._came.set()
            if session is self.session:
                self.coming = {}
                self.listener()

    async def _open_photos(self, classes: dict[str, list[str]], ids: dict[str, int], outcome: Added) -> Added:
        """Read the photos of the classes that are being opened, in batches."""
        session = self.session
        photos = [(ids[name], path) for name, paths in classes.items() if name in ids for path in paths]
        what = f"Opening {count_of(len(classes), 'class')}"
        for first in range(0, len(photos), PART):
            part = photos[first : first + PART]
            supports, broken = await self._embed([path for _, path in part], what, (first, len(photos)))
            if session is not self.session:  # another document was opened meanwhile
                return Added()
            change = partial(self._with_found, part, supports, outcome)
            self.session.amend_all(change, is_on_disk=True)  # not an edit: undo keeps them
            self._came.set()
            outcome.broken += broken
            self.hear_of([path for _, path in part], broken)
        self.session.amend_all(partial(_use_in_neither, outcome), is_on_disk=True)
        outcome.added -= len(outcome.shared)
        self.problems += outcome.shared.values()
        await self.sync()
        return outcome

    def _with_found(
        self, photos: Sequence[tuple[int, str]], supports: Sequence[Support], outcome: Added, state: State
    ) -> State:
        opening = Session(state)
        self._add_found(opening, photos, supports, outcome if state is self.session.state else Added())
        return opening.state

    def _add_found(
        self, session: Session, photos: Sequence[tuple[int, str]], supports: Sequence[Support], outcome: Added
    ) -> None:
        """Add embedded photos to their classes, given as pairs of class and path; deleted classes are skipped."""
        by_path = {str(support.path): support for support in supports}
        for class_id in dict.fromkeys(class_id for class_id, _ in photos):
            examples = [by_path[path] for of, path in photos if of == class_id and path in by_path]
            if class_id == NO_CLASS:
                new = [support for support in examples if support.key not in session.state.holders()]
                session.set_aside(new)
                outcome.added += len(new)
            elif any(entry.id == class_id for entry in session.state.classes):
                name, duplicates = session.state.find(class_id).name, session.add(class_id, examples)
                outcome.added += len(examples) - len(duplicates)
                for twin in duplicates:
                    if twin.class_name == name:
                        outcome.duplicates.append(twin)
                    else:
                        why = str(in_both(twin.twin, twin.class_name, twin.path, name))
                        outcome.shared.setdefault(twin.key, Problem(str(twin.path), why))

    def _named_classes(self, session: Session, names: Iterable[str], outcome: Added) -> dict[str, int]:
        """Create missing classes; return the ids of all with valid names, and `NO_CLASS` for a folder `unknown`."""
        ids = {}
        for name in names:
            there = session.state.named(name.strip())
            try:
                if there is None and is_no_class(name):
                    ids[name] = NO_CLASS
                    continue
                ids[name] = there.id if there is not None else session.create(name)
            except FrnError as error:  # the other folders may have valid names
                outcome.refused.append(Problem(name, str(error)))
        return ids

    async def load(self, path: str, *, copy: bool = False) -> None:
        """Open a project, replacing the document; if `copy`, saving asks for a new name."""
        project = await self.engine.call(file_requests.LoadProject(path))
        async with self._opening:
            if project.model != self._opened or project.has_changed:
                await self._open_model(project.model)
        self.begin(project.state)
        if self.model is not None and self.model["sha256"] != project.sha256:
            self.problems.append(
                Problem(path, "was saved with another version of this model; its classes are enrolled again")
            )
        self.problems += [Problem(path, note.removeprefix(f"{path}: ")) for note in project.notes]
        self.project, self.origin = None if copy else path, path
        await self.engine.call(file_requests.LockProject(self.project))
        await self.find_missing()
        await self.sync()

    async def save(self, path: str, *, replace: bool = False) -> None:
        """Save the current project; edits made meanwhile remain unsaved."""
        session = self.session
        async with self.own_model(), self._saving:
            if session is not self.session:
                raise FrnError(f"{path}: was not saved, because another project was opened")
            state = session.state
            await self.engine.call(file_requests.SaveProject(path, state, replace, self.origin))
            session.mark_saved(state)
            is_open = session is self.session  # no other project was opened meanwhile
            if is_open:
                self.project, self.origin, self.place, self.sample_classes = path, path, None, frozenset()
        if is_open:
            await self.engine.call(file_requests.LockProject(path))
            with suppress(EngineError):  # written again, and reported, a moment later
                await self.journal()
        self.listener()

    async def journal(self) -> None:
        """Save unsaved work and the photos being added, in case the app ends unexpectedly."""
        async with self._saving:
            adding: dict[str, list[str]] = {}
            for name, paths in (pair for classes in self.adding for pair in classes.items()):
                adding[name] = list(dict.fromkeys([*adding.get(name, ()), *paths]))
            if self.session.is_saved and not adding:
                await self.engine.call(file_requests.DiscardJournal(None))
                return
            unsaved = self.session.state, self.model_name, self.project, self.place, adding
            await self.engine.call(file_requests.WriteJournal(*unsaved))

    async def add(self, class_id: int, paths: Sequence[str]) -> Added:
        """Add examples to a class, as one edit after all are embedded."""
        name = self.session.state.find(class_id).name
        supports, broken = await self._embed_new({name: list(paths)}, f"to {name}")
        if self.entry(class_id) is None:
            raise FrnError(f"{name} was deleted; {count_of(len(supports), 'photo')} not added")
        before, outcome = self.session.state, Added(broken=broken)
        with self.session.one_edit():
            self._add_new([(class_id, str(support.path)) for support in supports], supports, outcome)
        if self.session.state is not before:
            self.session.name_act(f"added {count_of(outcome.added, 'photo')} to {name}")
        await self.sync()
        return outcome

    def _add_new(self, photos: Sequence[tuple[int, str]], supports: Sequence[Support], outcome: Added) -> None:
        """Add embedded photos to their classes; those of two classes are used in neither."""
        before = self.session.state.holders()
        self._add_found(self.session, photos, supports, outcome)
        self.session.edit(_use_in_neither(outcome, self.session.state))
        outcome.added -= len(outcome.shared.keys() - before)
        self.problems += outcome.shared.values()

    async def add_classes(self, classes: dict[str, list[str]]) -> Added:
        """Add each folder as a class, or as examples of an existing class, all in one edit."""
        count = count_of(len(classes), "class")
        supports, broken = await self._embed_new(classes, count)
        before, outcome = self.session.state, Added(broken=broken)
        with self.session.one_edit():
            self.step_aside()
            ids = self._named_classes(self.session, classes, outcome)
            photos = [(class_id, path) for name, class_id in ids.items() for path in classes[name]]
            self._add_new(photos, supports, outcome)
        self.problems += outcome.refused
        if self.session.state is not before:
            self.session.name_act(f"added {count_of(outcome.added, 'photo')} to {count}")
        await self.sync()
        return outcome

    async def _embed_new(self, classes: dict[str, list[str]], what: str) -> tuple[list[Support], list[Problem]]:
        """Embed photos to add. Raises FrnError if another document is opened meanwhile: they belong to this one."""
        session, paths = self.session, [path for paths in classes.values() for path in paths]
        with self.begun(classes):
            supports, broken = await self._embed(paths, f"Adding {what}")
        if session is not self.session:
            raise FrnError(f"another project was opened; {count_of(len(supports), 'photo')} not added")
        self.hear_of(paths, broken)
        return supports, broken

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
        paths, shown = self.arrangement.paths, self.query.answer
        if not paths:
            return self.query.shown
        at = paths.index(shown["path"]) + step if shown and shown["path"] in paths else 0
        return paths[at % len(paths)]

    async def export(self, path: str, what: file_requests.Exported, *, replace: bool = False) -> None:
        """Write the classes for other programs; what they still need is listed with the problems."""
        await self.settle()
        needs = await self.engine.call(file_requests.ExportClasses(path, what, replace))
        self.problems[:] = [problem for problem in self.problems if problem.path != path]
        self.problems += [Problem(path, needs)] * bool(needs)
        self.listener()

    async def search(self, search: Find) -> None:
        """Search for subjects or not, as an edit; it is taken back if the model cannot."""
        self.session.edit(dataclasses.replace(self.session.state, search=search))
        self.session.name_act(SEARCHED if search != "none" else "classified whole photos")
        state = self.session.state
        try:
            await self.sync()
        except EngineError:
            if self.session.state is state:
                self.session.undo()
                await self.sync()
            raise

    async def judge_again(self) -> None:
        self._renewed = None
        await self.sync()

    async def group(self, paths: Sequence[str]) -> list[list[str]]:
        """Make a class of each group of photos that probably belong together, as one edit; return the groups."""
        groups = await self.engine.call(GroupPhotos(list(paths)), self.told_to("Reading photos"))
        taken, first = set(self.names.values()), 1
        while any(f"group {first + place}" in taken for place in range(len(groups))):
            first += 1
        await self.add_classes({f"group {first + place}": photos for place, photos in enumerate(groups)})
        return groups

    async def show(self, path: str) -> None:
        self.query.show(path)
        await self.sync()
        await self.query.add_maps()

    async def ask(self, paths: Sequence[str], *, arrived: bool = False) -> None:
        """Classify photos; those that `arrived` by themselves are not shown."""
        if self.coming:
            await self._came.wait()
        await self.sync()
        if not self._has_examples:
            raise FrnError("no class has an example yet; add photos to a class first")
        self.session.amend_all(lambda state: dataclasses.replace(state, dropped=state.dropped.difference(paths)))
        answers = await self.query.ask(paths, self.progress, arrived=arrived)
        if not arrived:
            self.arrangement.sort(self.reviewed())
        self.hear_of(paths, answers)
        self.listener()
        await self.query.add_maps()

    async def crop_query(self, path: str, part: str) -> None:
        """Classify a part of a queried photo in its place, given by its name."""
        self.follow(lambda old: part if old == path else old)
        self.query.wait_for(part)  # until then, the answer and its key are those of the other photo
        await self.ask([part])

    def use_boxes(self, keys: Iterable[str]) -> None:
        """Make the boxes that were found in examples their own, in one edit."""
        with self.session.one_edit():
            for key in keys:
                (_, support), subject = self.session.state.holders()[key], self.boxes[key]
                path = Path(box_name(str(support.path), Box(*subject["box"])))
                self.session.exchange(key, dataclasses.replace(support, path=path, key=subject["key"]))

    async def crop_example(self, path: str, part: str) -> None:
        """Use a part of an example in its place, given by its name, as one edit."""
        holders = self.session.state.holders().values()
        entry, support = next((entry, support) for entry, support in holders if str(support.path) == path)
        fresh, broken = await self._embed_new({entry.name: [part]}, f"to {entry.name}")
        if broken or fresh[0].key in self.session.state.holders():
            raise FrnError(broken[0].reason if broken else f"{part}: is already an example")
        self.session.exchange(support.key, fresh[0])
        self.session.name_act(f"cropped {path.rpartition('/')[2]}")
        await self.sync()

    def label_of(self, answer: QueryAnswer) -> str:
        """Return the label that the user gave to a photo, or an empty string."""
        holder, _ = self.session.state.holders().get(answer.get("key", ""), (None, None))
        others = {other.key for other in self.session.state.others}
        return holder.name if holder else OTHER if answer.get("key") in others else ""

    def label(self, answers: Sequence[QueryAnswer], class_id: int) -> Added:
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

    def set_aside(self, answers: Sequence[QueryAnswer]) -> int:
        """Record that photos belong to none of the classes, in one edit; return how many."""
        supports = [support_of(answer) for answer in answers if "key" in answer]
        self.session.set_aside(supports)
        return len(supports)


def _use_in_neither(outcome: Added, state: State) -> State:
    opening = Session(state)
    opening.remove(outcome.shared)
    return opening.state
