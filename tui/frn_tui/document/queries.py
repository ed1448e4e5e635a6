"""Queries and their answers."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from frn.images.boxes import Box, box_name, split_box
from frn_tui.client.client import EngineClient
from frn_tui.client.protocol import AskClasses, ClassScore, QueryAnswer


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that could not be used, and the reason."""

    path: str
    reason: str


def best_score(answer: QueryAnswer | None) -> ClassScore | None:
    return answer["scores"][0] if answer and answer.get("scores") else None


def subject_in(answer: QueryAnswer | None) -> list[int]:
    """Return the box that was found in a photo; nothing if the whole photo was classified, or has a box of its own."""
    box = answer.get("box") if answer else None
    return box if answer and box and split_box(answer["path"])[1] is None else []


def classified(answer: QueryAnswer) -> str:
    box = subject_in(answer)
    return box_name(answer["path"], Box(*box)) if box else answer["path"]


ShowProgress = Callable[[str, int, int], None]  # receives a description, the finished number and the total


class Query:
    """Queries (one photo or a whole folder), and the shown answer."""

    def __init__(
        self, engine: EngineClient, changed: Callable[[], None], dropped: Callable[[], Collection[str]] = frozenset
    ) -> None:
        """`dropped` returns the paths of answers that the user removed from the list."""
        self._engine, self._changed, self._dropped = engine, changed, dropped
        self._answers: dict[str, QueryAnswer] = {}  # answers by path, in query order
        self.shown = ""  # path of the shown photo
        self.seen: set[str] = set()  # paths of photos that were shown
        self._arrived: set[str] = set()  # paths of photos that nobody asked about: those of a watched folder
        self.jointly = False  # whether all photos refine the classes together
        self._asked: dict[asyncio.Future[object], int] = {}  # running requests, and how many photos of each wait

    @property
    def answers(self) -> list[QueryAnswer]:
        dropped = self._dropped()
        return [answer for path, answer in self._answers.items() if path not in dropped]

    @property
    def answer(self) -> QueryAnswer | None:
        if not self.shown:
            return None
        if self.shown in self._answers and self.shown not in self._dropped():
            return self._answers[self.shown]
        return next(iter(self.answers), None)

    @property
    def arrived(self) -> list[str]:
        return [answer["path"] for answer in self.answers if answer["path"] in self._arrived - self.seen]

    @property
    def waiting(self) -> str:
        """Return how many answers are still missing or out of date, in words; empty if none is."""
        count = sum(self._asked.values())
        return f" · {count:,} still being classified" if count else ""

    @property
    def at(self) -> int:
        shown = self.answer
        return next((at for at, answer in enumerate(self.answers) if answer is shown), 0)

    @property
    def how(self) -> str:
        return " · classified jointly" if self.jointly else ""

    @property
    def rejected(self) -> int:
        return sum(bool(answer.get("unknown")) for answer in self.answers)

    def clear(self) -> None:
        self._answers, self.shown, self.seen, self._arrived = {}, "", set(), set()
        for request in self._asked:  # their answers are no longer needed
            request.cancel()
        self._asked.clear()

    def forget_scores(self, reason: str) -> None:
        """Replace all answers by a reason, until the photos can be classified again."""
        self._answers = {path: {"path": path, "reason": reason} for path in self._answers}

    def moved(self, follow: Callable[[str], str]) -> None:
        """Replace the path of each answer by its new one, as `follow` returns it."""
        for answer in self._answers.values():
            answer["path"] = follow(answer["path"])
        self._answers = {answer["path"]: answer for answer in self._answers.values()}
        self.shown = follow(self.shown)
        self.seen, self._arrived = set(map(follow, self.seen)), set(map(follow, self._arrived))

    def copy(self, path: str, target: str) -> None:
        if path in self._answers:
            self._answers[target] = {**self._answers[path], "path": target}

    def wait_for(self, path: str) -> None:
        """Forget the answer of a photo that is being classified."""
        self._answers[path] = {"path": path, "reason": "is being classified"}
        self._changed()

    async def ask(self, paths: Sequence[str], progress: ShowProgress, *, arrived: bool = False) -> list[Problem]:
        """Classify photos; their answers are appended, or replace earlier ones.

        The first photo is shown as soon as it is classified, unless another one was shown meanwhile. Photos that
        `arrived` by themselves wait: a key must not act on another photo than the one that its user saw. Returns the
        photos that cannot be read.
        """
        first, before = next(iter(paths), ""), self.shown
        if arrived:
            self.shown = self.shown if self.answer else ""  # otherwise the first one would be shown
            self._arrived |= {path for path in paths if path not in self._answers}

        def show(answers: list[QueryAnswer]) -> None:
            self._answers[path := answers[-1]["path"]] = answers[-1]
            if path == first and self.shown == before and not arrived:
                self._see(path)
            if len(answers) <= 2 or len(answers) % 20 == 0:
                self._changed()

        if self.jointly:
            paths = list(dict.fromkeys([*self._answers, *paths]))
        answers = await self._ask_engine(list(paths), show, progress)
        return [Problem(answer["path"], answer["reason"]) for answer in answers if "reason" in answer]

    def _see(self, path: str) -> None:
        self.shown = path
        self.seen.add(path)

    def show(self, path: str) -> None:
        if path in self._answers:
            self._see(path)
            self._changed()

    async def ask_again(self, is_current: Callable[[], bool]) -> None:
        """Classify all photos again after a change of the classes, the shown one first."""
        old, shown = dict(self._answers), self.answer
        if shown is not None:
            await self._renew(shown)
        if len(self._answers) == (shown is not None):
            return
        renewed = await self._ask_engine(list(self._answers))
        if is_current():
            for answer in renewed:  # keep newer answers, which may have maps
                if (path := answer["path"]) in old and self._answers.get(path) is old[path]:
                    self._answers[path] = answer
            self._changed()
            await self.add_maps()

    async def add_maps(self) -> None:
        """Request the error maps of the shown photo, which only a query of a single photo returns."""
        answer = self.answer
        if answer is not None and "maps" not in answer and "reason" not in answer:
            await self._renew(answer)

    async def _renew(self, shown: QueryAnswer) -> None:
        fresh = await self._ask_engine([shown["path"]])
        if self.answer is shown and fresh:  # with others, the photo was scored together with them
            is_joint = self.jointly and "scores" in shown
            answer: QueryAnswer = fresh[0]
            if is_joint:
                answer = {**shown, "maps": answer.get("maps", {}), "subjects": answer.get("subjects", [])}
            self._answers[shown["path"]] = answer
            self._changed()

    async def _ask_engine(
        self,
        paths: list[str],
        show: Callable[[list[QueryAnswer]], None] = lambda answers: None,
        progress: ShowProgress | None = None,
    ) -> list[QueryAnswer]:
        """Send a request; its answers are dropped if the queries are cleared meanwhile, which also cancels it."""
        answers: list[QueryAnswer] = []

        def on_event(event: dict[str, Any]) -> None:
            if pending not in self._asked:
                return
            if event["event"] == "answer":
                self._asked[pending] -= 1
                answers.append(event)  # type: ignore[arg-type]
                show(answers)
            elif progress is not None:
                progress("Classifying", event["done"], event["total"])

        request = AskClasses(paths, self.jointly)
        pending: asyncio.Future[object] = asyncio.ensure_future(self._engine.call(request, on_event))
        self._asked[pending] = len(paths)
        try:
            await pending
            return answers if pending in self._asked else []
        except asyncio.CancelledError:
            if pending in self._asked:  # the caller was cancelled
                raise
            return []
        finally:
            self._asked.pop(pending, None)
