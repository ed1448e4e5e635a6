"""A document that the engine knows: it gets the classes before it is asked, and asked again after edits."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from frn.inference.session import Session, State, Support
from frn_tui.client import file_requests, protocol
from frn_tui.client.protocol import ClassReport, Engine, EngineError, Model
from frn_tui.document.document import Document
from frn_tui.document.queries import Problem, Query, ShowProgress
from frn_tui.document.review_state import Arrangement


class SyncedDocument(Document):
    """The session, what the engine says of it, and the queries."""

    def __init__(self, engine: Engine, listener: Callable[[], None] = lambda: None) -> None:
        self.engine = engine
        self.listener = listener
        """Called after every change of what is shown."""
        super().__init__()
        self.missing: frozenset[str] = frozenset()
        """Paths of examples that are not where they were."""
        self.skipped: frozenset[str] = frozenset()
        """Keys of those among them that do not count: nothing is known of them but their names."""
        self.model: Model | None = None
        self.reports: dict[int, ClassReport] = {}
        self.threshold = 0.0
        self.calibrated = 0.0
        self.problems: list[Problem] = []
        self.query = Query(engine, self._changed, lambda: self.session.state.dropped)
        self.arrangement = Arrangement()
        """Which of the answers to go through, and in which order."""
        self._synced: State | None = None
        """Last state sent to the engine."""
        self._renewed: State | None = None
        """State that all answers belong to."""
        self._syncing, self._opening = asyncio.Lock(), asyncio.Lock()

    def _changed(self) -> None:
        self.listener()

    def begin(self, state: State, *, is_saved: bool = True) -> None:
        super().begin(state, is_saved=is_saved)
        self.missing = self.skipped = frozenset()
        self.reports = {}
        self._forget_answers()

    def step_aside(self) -> bool:
        if aside := super().step_aside():
            self._forget_answers()
        return aside

    def _forget_answers(self) -> None:
        self.query.clear()
        self.arrangement = Arrangement()

    async def open_model(self, name: str) -> None:
        """Open a model; examples are embedded again by it."""
        async with self._opening:
            await self._open_model(name)

    async def _open_model(self, name: str) -> None:
        self.model = await self.engine.call(protocol.OpenModel(name))
        self.model_name = name
        self._synced = None
        self._changed()

    async def change_model(self, name: str, progress: ShowProgress | None = None) -> None:
        """Look at the classes with another model: an edit like any other."""
        async with self._opening:
            await self._open_model(name)
            self.session.replace_state(dataclasses.replace(self.session.state, model=name))
            self.session.name_act(f"changed the model to {name}")
        await self.sync(progress)

    @asynccontextmanager
    async def own_model(self) -> AsyncIterator[None]:
        """Inside, the state's own model is open and stays it: what is written names the model that it is of."""
        async with self._opening:
            await self._follow_model()
            yield

    async def find_missing(self) -> None:
        """Look which examples are not where they were."""
        session = self.session
        missing = frozenset(await self.engine.call(file_requests.FindMissing(list(self._paths))))
        if session is self.session:  # else those of another project
            self.missing = missing
            self._changed()

    async def sync(self, progress: ShowProgress | None = None) -> None:
        """Tell the engine the classes and ask about all photos again, where that is not done yet.

        Whoever asks the engine for something of the classes syncs first: opening another document, or telling of an
        edit, may have been cancelled half-way, and class ids mean something else in each document.
        """
        self._changed()
        async with self._syncing:  # edits may come faster than answers: the last one counts
            async with self._opening:
                await self._follow_model()
            if self.model is None:
                return
            if self.session.state is not self._synced:
                await self._tell_classes(progress)
                self._changed()
            state = self.session.state
            if state is self._synced and state is not self._renewed:
                await self._renew_answers(state)

    async def _tell_classes(self, progress: ShowProgress | None) -> None:
        """Tell the engine the classes, embed what it lacks, and take its reports."""
        state = self.session.state
        done = await self.engine.call(protocol.SetClasses(state))
        skipped: frozenset[str] = frozenset()
        if done["missing"]:
            missing = set(done["missing"])
            paths = [str(s.path) for entry in state.classes for s in entry.supports if s.key in missing]
            paths += [str(other.path) for other in state.others]
            found, broken = await self._embed(paths, "Reading examples", progress)
            self.problems += broken
            self._follow_changes(found)
            state = self.session.state
            done = await self.engine.call(protocol.SetClasses(state))
            if skipped := frozenset(done["missing"]):  # their files are away, and nothing is known of them
                done = await self.engine.call(protocol.SetClasses(_without(state, skipped)))
        self.skipped = skipped
        self.missing &= self._paths.keys()  # an example that was removed is not missed
        self._synced = state  # another, where an edit was made meanwhile, is told after this one
        self.reports = {report["id"]: report for report in done["reports"]}
        self.threshold, self.calibrated = done["threshold"], done["calibrated"]

    async def _renew_answers(self, state: State) -> None:
        """Ask about all photos again, as the classes are now."""
        self._renewed = None  # until all of it is done: it may be cancelled half-way
        if self.query.answers and self._has_examples:
            await self.query.ask_again(lambda: state is self.session.state)
        elif self.query.answers:
            self.query.forget_scores("there is no class with an example")
            self._changed()
        if state is self.session.state:
            self._renewed = state

    @property
    def _has_examples(self) -> bool:
        return any(s.key not in self.skipped for entry in self.session.state.classes for s in entry.supports)

    @property
    def _paths(self) -> dict[str, None]:
        """Return the paths of all examples, each once."""
        return {str(support.path): None for entry in self.session.state.classes for support in entry.supports}

    async def _follow_model(self) -> None:
        """Open the model of a state that was gone back to; where it cannot be opened, the one on hand stays."""
        wanted = self.session.state.model
        if wanted and wanted != self.model_name:
            try:
                await self._open_model(wanted)
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
                supports.append(support_of(event))
            elif event["event"] == "embedded":
                broken.append(Problem(event["path"], event["reason"]))

        if paths:
            await self.engine.call(protocol.EmbedImages(list(paths)), on_event)
        return supports, broken


def support_of(described: Mapping[str, Any]) -> Support:
    """The photo of an answer, or of an event of embedding."""
    return Support(Path(described["path"]), described["key"], described["size"], described["mtime_ns"])


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
