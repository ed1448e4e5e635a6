"""What the app does, without its looks: edits of the session, and keeping the engine's classes in step with them.

The app shows what is here and calls its methods; a listener is told when something has changed. Only this module edits
the session. The engine is whatever has `call(op, on_event, **arguments)`; a test gives a fake one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from frn.errors import FrnError
from frn.inference.session import Duplicate, Session, State, Support
from frn_tui.protocol import Answer, ClassReport, ConfusionDone, ModelDone, ScanDone
from frn_tui.serialization import state_from_json, state_to_json, support_from_json

OnEvent = Callable[[dict[str, Any]], None]


class Engine(Protocol):
    """Whoever answers requests."""

    def call(self, op: str, on_event: OnEvent | None = None, **arguments: Any) -> Awaitable[dict[str, Any]]:
        """Answer a request, or raise its failure."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that could not be used, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a piece of work is."""

    what: str
    done: int
    total: int


@dataclass(slots=True)
class Added:
    """What came of adding files."""

    added: int = 0
    broken: list[Problem] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.added} added"]
        if self.duplicates:
            parts.append(f"{len(self.duplicates)} there already")
        if self.broken:
            parts.append(f"{len(self.broken)} cannot be read")
        return ", ".join(parts)


class Controller:
    """The session, what the engine says of it, and the queries."""

    def __init__(self, engine: Engine, listener: Callable[[], None] = lambda: None) -> None:
        self.engine = engine
        self.listener = listener
        """Called after every change of what is shown."""
        self.session = Session()
        self.project: str | None = None
        """Path of the project that is open."""
        self.model_name = ""
        self.model: ModelDone | None = None
        self.reports: dict[int, ClassReport] = {}
        self.first_threshold: float | None = None
        """Of classes that are begun anew; None: calibrated."""
        self.threshold = 0.0
        self.calibrated = 0.0
        self.adding: list[dict[str, list[str]]] = []
        """Photos that are being added, by class."""
        self.problems: list[Problem] = []
        self.answers: list[Answer] = []
        """Of the last query: one image, or all of a folder."""
        self.at = 0
        """Which of them is shown."""
        self._embedded: set[str] = set()
        """Keys whose feature maps the engine has had under this model."""
        self._synced: State | None = None
        self._syncing = asyncio.Lock()

    # -- model and project -------------------------------------------------------------------------------------------

    async def open_model(self, name: str) -> None:
        """Open a model; examples are embedded anew by it."""
        self.model = await self.engine.call("open_model", model=name)  # type: ignore[assignment]
        self.model_name = name
        self._embedded.clear()
        self._synced = None
        self.listener()

    async def scan(self, path: str, on_event: OnEvent | None = None) -> ScanDone:
        """What is at a path."""
        return await self.engine.call("scan", on_event, path=path, recursive=False)  # type: ignore[return-value]

    async def holder(self, path: str) -> int | None:
        """Process of another app that a project is open in."""
        found: int | None = (await self.engine.call("holder", path=path))["holder"]
        return found

    async def start_anew(self) -> None:
        """No classes and no project."""
        await self.engine.call("lock", path=None)
        self.session = Session(State(threshold=self.first_threshold))
        self.project, self.answers, self.at = None, [], 0
        self.listener()

    async def load(self, path: str, progress: Callable[[Progress], None] | None = None, *, copy: bool = False) -> None:
        """Open a project in place of what is there; of a copy only the classes, so that saving asks for a name."""
        found = await self.engine.call("load", path=path)
        if found["model"] != self.model_name:
            await self.open_model(found["model"])
        if self.model is not None and self.model["sha256"] != found["sha256"]:
            self.problems.append(
                Problem(path, "was made with another version of this model; its classes are made anew")
            )
        self.project = None if copy else path
        await self.engine.call("lock", path=self.project)
        self.session = Session(state_from_json(found["state"]))
        self.answers, self.at = [], 0
        self.listener()
        await self.sync(progress)

    async def save(self, path: str, *, replace: bool = False) -> None:
        """Write the project as it is now; edits that are made meanwhile are unsaved."""
        session, state = self.session, self.session.state
        await self.engine.call("save", path=path, state=state_to_json(state), replace=replace)
        session.mark_saved(state)
        if session is self.session:  # no other was opened meanwhile
            self.project = path
            await self.engine.call("lock", path=path)
        self.listener()

    async def journal(self) -> None:
        """Keep what is unsaved, and what is being added, in case the app ends without a word."""
        adding: dict[str, list[str]] = {}
        for name, paths in (pair for classes in self.adding for pair in classes.items()):
            adding[name] = list(dict.fromkeys([*adding.get(name, ()), *paths]))
        await self.engine.call(
            "journal",
            state=state_to_json(self.session.state),
            model=self.model_name,
            project=self.project,
            adding=adding,
            saved=self.session.is_saved and not adding,
        )

    # -- classes -----------------------------------------------------------------------------------------------------

    async def add(
        self, class_id: int, paths: Sequence[str], progress: Callable[[Progress], None] | None = None
    ) -> Added:
        """Make photos examples of a class; one edit for all of them, made when the last is embedded."""
        name = self.session.state.find(class_id).name
        with self.begun({name: list(paths)}):
            supports, broken = await self._embed(paths, f"Adding to {name}", progress)
        duplicates = self.session.add(class_id, supports)
        self.problems += broken
        self.listener()
        await self.sync()
        return Added(len(supports) - len(duplicates), broken, duplicates)

    async def add_classes(
        self, classes: dict[str, list[str]], progress: Callable[[Progress], None] | None = None
    ) -> Added:
        """Make a class of each folder; one that is there already gets more examples. One edit for all."""
        everything = [path for paths in classes.values() for path in paths]
        with self.begun(classes):
            supports, broken = await self._embed(everything, f"Adding {len(classes)} classes", progress)
        by_path = {str(support.path): support for support in supports}
        outcome = Added(broken=broken)
        with self.session.one_edit():
            for name, paths in classes.items():
                there = self.session.state.named(name)
                class_id = there.id if there is not None else self.session.create(name)
                found = [by_path[path] for path in paths if path in by_path]
                duplicates = self.session.add(class_id, found)
                outcome.added += len(found) - len(duplicates)
                outcome.duplicates += duplicates
        self.problems += broken
        self.listener()
        await self.sync()
        return outcome

    @contextmanager
    def begun(self, classes: dict[str, list[str]]) -> Iterator[None]:
        """While photos are being added: an app that is killed meanwhile goes on with them."""
        self.adding.append(classes)
        try:
            yield
        finally:
            self.adding.remove(classes)

    async def sync(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Tell the engine the classes, embed what it lacks, and take its reports; then ask the query on show again."""
        async with self._syncing:  # edits may come faster than answers: the last one counts
            state = self.session.state
            if state is self._synced or self.model is None:
                return
            done = await self.engine.call("classes", state=state_to_json(state))
            if done["missing"]:
                missing = set(done["missing"])
                paths = [str(s.path) for entry in state.classes for s in entry.supports if s.key in missing]
                found, broken = await self._embed(paths, "Reading examples", progress)
                self.problems += broken
                self._follow_changes(found)
                done = await self.engine.call("classes", state=state_to_json(self.session.state))
            self._synced = self.session.state
            self.reports = {report["id"]: report for report in done["reports"]}
            self.threshold, self.calibrated = done["threshold"], done["calibrated"]
        self.listener()
        if self.answers:
            await self._ask_again()

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
        self, paths: Sequence[str], what: str, progress: Callable[[Progress], None] | None
    ) -> tuple[list[Support], list[Problem]]:
        supports: list[Support] = []
        broken: list[Problem] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "progress" and progress is not None:
                progress(Progress(what, event["done"], event["total"]))
            elif event["event"] == "embedded" and "key" in event:
                supports.append(support_from_json(event))
            elif event["event"] == "embedded":
                broken.append(Problem(event["path"], event["reason"]))

        if paths:
            await self.engine.call("embed", on_event, paths=list(paths))
        return supports, broken

    async def edit(self, change: Callable[[Session], object]) -> None:
        """Make an edit (or take one back) and bring the engine in step.

        Raises:
            FrnError: if the edit is refused; nothing has changed then.
        """
        change(self.session)
        self.listener()
        await self.sync()

    async def hide_and_test(self, shot: int, seed: int = 0) -> ConfusionDone:
        """Enroll `shot` examples per class and ask about the others."""
        return await self.engine.call("hide_and_test", shot=shot, seed=seed)  # type: ignore[return-value]

    async def export(self, path: str, *, replace: bool = False) -> None:
        """Write the whole classifier as one ONNX file, or into an .npz the numbers of its classes."""
        what = "bank" if path.lower().endswith(".npz") else "classifier"
        await self.engine.call("export", path=path, what=what, replace=replace)

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def answer(self) -> Answer | None:
        """The one on show."""
        return self.answers[self.at] if self.answers else None

    async def ask(self, paths: Sequence[str], progress: Callable[[Progress], None] | None = None) -> None:
        """Ask about photos; the first answer is shown as soon as it is there."""
        if not any(entry.supports for entry in self.session.state.classes):
            raise FrnError("there is no class with an example yet: add photos to one first")
        answers: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "answer":
                answers.append(event)  # type: ignore[arg-type]
                if len(answers) == 1:
                    self.answers, self.at = answers, 0
                if len(answers) <= 2 or len(answers) % 20 == 0:
                    self.listener()
            elif event["event"] == "progress" and progress is not None:
                progress(Progress("Asking", event["done"], event["total"]))

        await self.engine.call("query", on_event, paths=list(paths))
        self.problems += [Problem(a["path"], a["reason"]) for a in answers if "reason" in a]
        self.listener()
        await self._map()

    async def show_answer(self, index: int) -> None:
        """Show another answer of a folder query."""
        if self.answers:
            self.at = index % len(self.answers)
            self.listener()
            await self._map()

    async def _map(self) -> None:
        """Error maps come with a question about a single photo: ask for those of the one on show."""
        answer = self.answer
        if answer is None or "maps" in answer or "reason" in answer:
            return
        fresh = await self._answer(answer["path"])
        if self.answer is answer and fresh is not None:
            self.answers[self.at] = fresh
            self.listener()

    async def _answer(self, path: str) -> Answer | None:
        found: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "answer":
                found.append(event)  # type: ignore[arg-type]

        await self.engine.call("query", on_event, paths=[path])
        return found[0] if found else None

    async def _ask_again(self) -> None:
        """The classes have changed: the answer on show first, then the rest of its folder."""
        shown = self.answer
        if shown is None or not any(entry.supports for entry in self.session.state.classes):
            self.answers, self.at = [], 0
            self.listener()
            return
        fresh = await self._answer(shown["path"])
        if self.answer is shown and fresh is not None:
            self.answers[self.at] = fresh
            self.listener()
        if len(self.answers) > 1:
            await self._renew()

    async def _renew(self) -> None:
        before, state = self.answers, self.session.state
        renewed: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "answer":
                renewed.append(event)  # type: ignore[arg-type]

        await self.engine.call("query", on_event, paths=[answer["path"] for answer in before])
        if self.answers is before and state is self.session.state and len(renewed) == len(before):
            if "maps" in before[self.at]:
                renewed[self.at] = before[self.at]
            self.answers = renewed
            self.listener()

    async def correct(self, class_id: int) -> Added:
        """Say which class the photo on show is of, and make it an example of that."""
        answer = self.answer
        if answer is None or "key" not in answer:
            raise FrnError("there is no photo on show that could become an example")
        support = support_from_json(answer)
        duplicates = self.session.add(class_id, [support])
        self.listener()
        await self.sync()
        return Added(1 - len(duplicates), [], duplicates)

    @property
    def rejected(self) -> int:
        """Answers of the last query that are unknown."""
        return sum(bool(answer.get("unknown")) for answer in self.answers)
