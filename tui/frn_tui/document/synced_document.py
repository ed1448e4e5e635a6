"""A document synchronised with the engine: classes are sent before queries, and edits repeat the queries."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any, cast

from frn.projects.session import ClassEntry, Session, State, Support, build_state, in_two_classes, without
from frn_tui.client import file_requests, protocol
from frn_tui.client.client import EngineClient
from frn_tui.client.protocol import ClassReport, EngineError, Model, OnEvent, split_suffix
from frn_tui.document.queries import Problem, Query, ShowProgress, classified
from frn_tui.document.review_state import Arrangement


class SyncedDocument:
    """The open document: its session, the engine's reports on it, and the queries."""

    def __init__(self, engine: EngineClient, listener: Callable[[], None] = lambda: None) -> None:
        self.engine = engine
        self.listener = listener  # called after every change of the shown state
        self.progress: ShowProgress = lambda what, done, total: None
        self.say: Callable[[str], object] = lambda said: None
        self.session = Session()
        self.project: str | None = None  # path of the open project
        self.origin: str | None = None  # project that the classes were loaded from or saved as, also if this is a copy
        self.place: str | None = None  # folder that was opened, if it is not a project
        self.sample_classes: frozenset[int] = frozenset()
        """Ids of the shipped classes, which the user's first class replaces."""
        self.model_name = self._opened = ""
        self.missing: frozenset[str] = frozenset()  # paths of missing photos
        self.skipped: frozenset[str] = frozenset()  # paths of missing and unreadable photos, which are not used
        self.model: Model | None = None
        self.reports: dict[int, ClassReport] = {}
        self.threshold = 0.0
        self.expected = ""
        self.known: dict[str, float] = {}  # `known` of the examples by leave-one-out, by key
        self.boxes: dict[str, protocol.FoundBox] = {}  # subjects that were found in examples without a box, by key
        self.coming: dict[int, int] = {}  # photos in the folders of the classes that are being opened, by class id
        self.unranked = 0  # examples that are not yet compared with all classes, because there are many
        self.problems: list[Problem] = []
        self.query = Query(engine, lambda: self.listener(), lambda: self.session.state.dropped)  # noqa: PLW0108
        self.arrangement = Arrangement()  # selection and order of the answers to review
        self._synced: State | None = None  # state last sent to the engine
        self._renewed: State | None = None  # state to which all answers belong
        self._syncing, self._opening = asyncio.Lock(), asyncio.Lock()

    def hear_of(self, paths: Sequence[str], problems: Sequence[Problem]) -> None:
        read = set(paths)
        self.problems = [problem for problem in self.problems if problem.path not in read] + list(problems)

    def told_to(self, what: str) -> OnEvent:

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "progress":
                self.progress(what, event["done"], event["total"])

        return on_event

    def box_in(self, key: str) -> list[int]:
        """Return the box that was found in an example; empty if it has one of its own, or there was no search."""
        return self.boxes[key]["box"] if key in self.boxes else []

    @property
    def title(self) -> str:
        """Short name of the document."""
        if self.shows_samples:
            return "samples"
        if self.project is not None:
            return self.project.rpartition("/")[2]
        if self.place is None:
            return "unsaved"
        name = self.place.rstrip("/").rpartition("/")[2]
        return name if name.lower().endswith((".csv", ".tsv", ".zip")) else f"{name}/"

    @property
    def comparing(self) -> str:
        """Return how many examples are not yet compared with all classes, in words; empty if none is."""
        examples = sum(len(entry.supports) for entry in self.session.state.classes)
        if self.coming or (examples and not self.reports):
            return " · opening"
        return f" · {self.unranked:,} of {examples:,} examples still being compared" if self.unranked else ""

    @property
    def names(self) -> dict[int, str]:
        return {entry.id: entry.name for entry in self.session.state.classes}

    def entry(self, class_id: int) -> ClassEntry | None:
        return next((entry for entry in self.session.state.classes if entry.id == class_id), None)

    @property
    def shows_samples(self) -> bool:
        return bool(self.sample_classes) and self.names.keys() <= self.sample_classes

    def begin(self, state: State, *, is_saved: bool = True) -> None:
        """Replace the open document; this cannot be undone."""
        self.session = Session(dataclasses.replace(state, model=self.model_name), is_saved=is_saved)
        self.project = self.place = self.origin = None
        self.sample_classes = frozenset()
        self.missing = self.skipped = frozenset()
        self.reports, self.problems = {}, []
        self._synced = self._renewed = None
        self._forget_answers()

    def step_aside(self) -> None:
        """Remove the samples, as part of an edit that adds the user's own classes."""
        if self.shows_samples:
            emptied = dataclasses.replace(self.session.state, classes=(), threshold=None)
            self.session.edit(emptied)
            self._forget_answers()

    def create(self, name: str) -> int:
        """Create a class and return its id; this replaces the samples."""
        with self.session.one_edit():
            self.step_aside()
            return self.session.create(name)

    def _forget_answers(self) -> None:
        self.query.clear()
        self.arrangement = Arrangement()

    def follow(self, moved: Callable[[str], str]) -> None:
        """Replace the path of each answer by its new one, as `moved` returns it."""
        self.query.moved(moved)
        self.arrangement.moved(moved)

    @property
    def not_jointly(self) -> str:
        """Return why the open model cannot classify photos together, or an empty text."""
        if (model := self.model) is not None and model["head"] != "frn":
            return f"joint classification needs an FRN head, but this model has {model['head']}"
        return "second looks are at one photo at a time" if split_suffix(self.model_name)[1] == "auto" else ""

    async def open_model(self, name: str) -> None:
        async with self._opening:
            await self._open_model(name)

    async def _open_model(self, name: str) -> None:
        self._opened = ""
        self.model = await self.engine.call(protocol.OpenModel(name))
        self.model_name = self._opened = name
        self.query.jointly = self.query.jointly and not self.not_jointly
        self._synced = None
        self.listener()

    async def change_model(self, name: str) -> None:
        """Switch to a different model, as an edit that can be undone."""
        async with self._opening:
            await self._open_model(name)
            self.session.edit(dataclasses.replace(self.session.state, model=name))
            self.session.name_act(f"changed the model to {name}")
        await self.sync()

    @asynccontextmanager
    async def own_model(self) -> AsyncIterator[None]:
        """Keep the state's own model open during a `with` block, so that written files name the right model."""
        async with self._opening:
            await self._follow_model()
            yield

    async def find_missing(self) -> None:
        session, paths = self.session, self._paths
        stamps = await self.engine.call(file_requests.StampFiles(list(paths)))
        if session is self.session:  # otherwise they belong to another project
            missing = frozenset(paths.keys() - stamps.keys())
            self._synced = self._synced if missing == self.missing else None  # they count again, or no longer
            self.missing = missing
            self.listener()

    async def sync(self) -> None:
        """Send the classes to the engine and classify all photos again, unless that is already done.

        Requests on classes must sync first: opening a document or syncing an edit may have been cancelled half-way, and
        class ids are specific to a document.
        """
        self.listener()
        async with self._syncing:  # edits may be faster than answers: the last one counts
            async with self._opening:
                await self._follow_model()
            if self.model is None:
                return
            if self.session.state != self._synced:
                await self._tell_classes()
                self.listener()
            state = self.session.state
            if state != self._synced or state == self._renewed:
                return
            self._renewed = None  # until it is finished, since it may be cancelled
            if self.query.answers and self._has_examples:
                await self.query.ask_again(lambda: state is self.session.state)
            elif self.query.answers:
                self.query.forget_scores("all examples are missing" if self.missing else "no class has an example")
                self.listener()
            if state is self.session.state:
                self._renewed = state

    async def settle(self) -> None:
        """Sync, and finish the search of the examples, which decides probabilities and the threshold."""
        await self.sync()
        while self.unranked and self.session.state.search != "none":
            await self.rank()
            await self.sync()

    async def rank(self) -> None:
        """Compare the examples with all classes, in batches, as long as the classes stay the same."""
        state, threshold = self.session.state, self.threshold
        searches = state.search != "none"  # then gamma, which decides probabilities, comes last
        while self.unranked and state == self._synced == self.session.state:
            async with self._syncing:
                await self._tell_classes()
            self.listener()
        if (searches or self.threshold != threshold) and state is self.session.state:
            self._renewed = None
            await self.sync()

    async def _tell_classes(self) -> None:
        """Send the classes to the engine, embed missing examples, and store the reports."""
        self._synced = None  # the engine may hold these classes even if this is cancelled before its answer
        if self.session.state.search == "auto":
            await self._choose_search()
        state = self.session.state
        done = await self._enroll(state)
        unreadable: list[str] = []
        if done["unread"]:
            read, broken = await self._embed(done["unread"], "Reading examples")
            self.problems += [problem for problem in broken if problem not in self.problems]
            self._follow_changes(read, [*done["away"], *(problem.path for problem in broken)])
            state = self.session.state
            done = await self._enroll(state)
            if unreadable := done["unread"]:
                done = await self._enroll(without(state, unreadable))
        self.missing = frozenset(done["away"])
        self.skipped = self.missing.union(unreadable)
        self.unranked, self.boxes = done["unranked"], done["boxes"]
        self._synced = state  # an edit made meanwhile is sent by the next call
        self.reports = {report["id"]: report for report in done["reports"]}
        self.threshold, self.known, self.expected = done["threshold"], done["known"], done["expected"]

    async def _enroll(self, state: State) -> protocol.ClassReports:
        return await self._searching(protocol.SetClasses(state), "Finding the subjects of the examples")

    async def _searching(self, request: protocol.Request[protocol.Result], what: str) -> protocol.Result:
        """Send a request that may search the examples, and show its progress."""
        try:
            return await self.engine.call(request, self.told_to(what))
        except asyncio.CancelledError:  # by a later edit
            self.progress(what, 1, 1)
            raise

    async def _choose_search(self) -> None:
        """Let the examples decide whether to search for subjects."""
        state = self.session.state
        paths = [str(s.path) for entry in state.classes for s in entry.supports]
        chosen = protocol.ChosenSearch(search="none", why="subjects are not searched for: no class has an example yet")
        if paths:
            chosen = await self._searching(protocol.ChooseSearch(state), "Trying the search for subjects")
        if state is self.session.state:
            self._take_in(dataclasses.replace(state, search=chosen["search"]))
            self.say(chosen["why"])

    @property
    def _has_examples(self) -> bool:
        return any(str(s.path) not in self.skipped for entry in self.session.state.classes for s in entry.supports)

    @property
    def _paths(self) -> dict[str, None]:
        return {str(photo.path): None for photo in self.session.state.photos}

    async def _follow_model(self) -> None:
        """Open the model of a restored state; if it cannot be opened, keep the current one and raise."""
        wanted = self.session.state.model
        if not wanted:  # the folder was opened before the first model
            self._take_in(dataclasses.replace(self.session.state, model=self.model_name))
        elif wanted != self._opened:
            try:
                await self._open_model(wanted)
            except EngineError:
                self.session.amend(dataclasses.replace(self.session.state, model=self.model_name))
                raise

    def _take_in(self, state: State) -> None:
        """Replace this state with one that is as on disk."""
        was_saved = self.session.is_saved
        self.session.amend(state)
        if was_saved:
            self.session.mark_saved()

    def _follow_changes(self, found: Sequence[Support], unreadable: Sequence[str]) -> None:
        """Replace photos whose files have changed since they were added by their new content.

        A photo that can no longer be read gives way to one with its former content.
        """
        state, read = self.session.state, {str(support.path): support for support in found}
        changed = [photo for photo in state.photos if photo.key != read.get(str(photo.path), photo).key]
        if not changed:
            return
        # An unchanged photo keeps its recorded time: whether it was read again depends on the cache.
        now = {str(photo.path): read[str(photo.path)] for photo in changed}
        keys = {support.key for support in now.values()}
        state = without(state, [str(s.path) for s in state.photos if s.key in keys and str(s.path) in unreadable])

        def follow(photos: Sequence[Support]) -> list[Support]:
            return [now.get(str(photo.path), photo) for photo in photos]

        names, followed = [entry.name for entry in state.classes], [follow(entry.supports) for entry in state.classes]
        shared = in_two_classes(names, followed)
        built, duplicates = build_state(
            (name, [photo for photo in photos if photo.key not in shared])
            for name, photos in zip(names, followed, strict=True)
        )
        pairs = zip(state.classes, built.classes, strict=True)
        classes = tuple(dataclasses.replace(entry, supports=new.supports) for entry, new in pairs)
        others = tuple({other.key: other for other in follow(state.others)}.values())
        what = "has changed since it was added; its current content is used"
        self.problems += [Problem(str(photo.path), what) for photo in changed]
        self.problems += [Problem(str(each.path), str(each).removeprefix(f"{each.path}: ")) for each in duplicates]
        self.problems += [
            Problem(str(photo.path), str(shared[photo.key])) for photo in chain(*followed) if photo.key in shared
        ]
        # as an edit, it would block undo
        self.session.amend(dataclasses.replace(state, classes=classes, others=others))

    async def _embed(
        self, paths: Sequence[str], what: str, part: tuple[int, int] | None = None
    ) -> tuple[list[Support], list[Problem]]:
        """Return the photos at some paths, and the unreadable ones.

        If they are a `part` of the photos to embed, it gives the number of the first one, and of all.
        """
        supports: list[Support] = []
        broken: list[Problem] = []
        first, count = part or (0, len(paths))

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "progress":
                self.progress(what, first + event["done"], count)
            elif "key" in event:
                supports.append(support_of(event))
            else:
                broken.append(Problem(event["path"], event["reason"]))

        if paths:
            await self.engine.call(protocol.EmbedImages(list(paths)), on_event)
        return supports, broken


def support_of(described: Mapping[str, Any]) -> Support:
    """The photo of an answer or of an embedding event; a box that was found in it becomes its own."""
    return Support(
        Path(classified(cast(protocol.QueryAnswer, described))),
        described["key"],
        described["size"],
        described["mtime_ns"],
    )
