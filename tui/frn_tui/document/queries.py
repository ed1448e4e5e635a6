"""The photos that were asked about, and what the classes say of them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frn_tui.client.protocol import Answer, AskClasses, ClassScore, Engine


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that could not be used, and why."""

    path: str
    reason: str


def best_score(answer: Answer | None) -> ClassScore | None:
    """What the likeliest class says, if any says something."""
    return answer["scores"][0] if answer and answer.get("scores") else None


ShowProgress = Callable[[str, int, int], None]
"""Told what is done, how much of it is, and how much there is."""


class Query:
    """One photo, or all of a folder; one of the answers is on show."""

    def __init__(self, engine: Engine, changed: Callable[[], None]) -> None:
        self._engine, self._changed = engine, changed
        self.answers: list[Answer] = []
        self._places: dict[str, int] = {}
        """Where each photo's answer is, by path: several questions may be on their way, about the same photos too."""
        self.at = 0
        """Which of them is on show."""
        self.first: dict[str, Answer] = {}
        """What was said of each photo at first, by path."""
        self.seen: set[str] = set()
        """Paths of the photos that were on show."""
        self._asked: set[asyncio.Future[object]] = set()
        """Questions that are on their way."""

    @property
    def answer(self) -> Answer | None:
        return self.answers[self.at] if self.answers else None

    @property
    def rejected(self) -> int:
        return sum(bool(answer.get("unknown")) for answer in self.answers)

    def clear(self) -> None:
        self.answers, self.at, self.first, self.seen = [], 0, {}, set()
        self._find_places()
        for asked in self._asked:  # the answers have no place any more
            asked.cancel()
        self._asked.clear()

    def _find_places(self) -> None:
        self._places = {answer["path"]: place for place, answer in enumerate(self.answers)}

    def drop(self, paths: Collection[str]) -> None:
        """Forget some of the answers."""
        shown = self.answer
        self.answers = [answer for answer in self.answers if answer["path"] not in paths]
        self.at = next((at for at, answer in enumerate(self.answers) if answer is shown), 0)
        self._find_places()
        for path in paths:
            self.first.pop(path, None)
        self.seen.difference_update(paths)

    def forget_scores(self, reason: str) -> None:
        """There is nobody to answer; once there is, the same photos are asked about again."""
        self.answers = [{"path": answer["path"], "reason": reason} for answer in self.answers]

    def moved(self, places: Mapping[str, str]) -> None:
        """Files lie elsewhere now: by their paths, where."""
        for answer in self.answers:
            answer["path"] = places.get(answer["path"], answer["path"])
        self.first = {places.get(path, path): answer for path, answer in self.first.items()}
        self.seen = {places.get(path, path) for path in self.seen}
        self._find_places()

    async def ask(self, paths: Sequence[str], progress: ShowProgress | None = None) -> list[Problem]:
        """Ask about photos too: answers come behind those that are there, or in their place.

        The first one is shown as soon as it is there. Returns what cannot be read.
        """

        def show(answers: list[Answer]) -> None:
            place = self._put(answers[-1])
            if len(answers) == 1:
                self.at = place
                self._see()
            if len(answers) <= 2 or len(answers) % 20 == 0:
                self._changed()

        answers = await self._answers(list(paths), show, progress)
        return [Problem(answer["path"], answer["reason"]) for answer in answers if "reason" in answer]

    def _put(self, answer: Answer) -> int:
        """Put an answer in the place of an older one to the same photo, or behind all; return where it is."""
        path = answer["path"]
        if "scores" in answer:
            self.first.setdefault(path, answer)
        place = self._places.setdefault(path, len(self.answers))
        self.answers[place : place + 1] = [answer]
        return place

    def _see(self) -> None:
        if self.answer is not None:
            self.seen.add(self.answer["path"])

    def show(self, index: int) -> None:
        if self.answers:
            self.at = index % len(self.answers)
            self._see()
            self._changed()

    async def ask_again(self, is_current: Callable[[], bool]) -> None:
        """The classes have changed: ask about the photo on show first, then, unless they change again, the others."""
        old, shown = list(self.answers), self.answer
        if shown is None:
            return
        await self._renew(shown)
        if len(self.answers) == 1:
            return
        renewed = {answer["path"]: answer for answer in await self._answers([one["path"] for one in self.answers])}
        if is_current():
            stale = {id(answer) for answer in old}
            for place, answer in enumerate(self.answers):
                if id(answer) in stale:  # others came since, by the classes as they are now, and may have maps
                    self.answers[place] = renewed.get(answer["path"], answer)
            for path, answer in renewed.items():
                if "scores" in answer:
                    self.first.setdefault(path, answer)
            self._changed()
            await self.add_maps()

    async def add_maps(self) -> None:
        """Error maps come with a question about a single photo: ask for those of the one on show."""
        answer = self.answer
        if answer is not None and "maps" not in answer and "reason" not in answer:
            await self._renew(answer)

    async def _renew(self, shown: Answer) -> None:
        fresh = await self._answers([shown["path"]])
        if self.answer is shown and fresh:
            self.answers[self.at] = fresh[0]
            self._changed()

    async def _answers(
        self,
        paths: list[str],
        show: Callable[[list[Answer]], None] = lambda answers: None,
        progress: ShowProgress | None = None,
    ) -> list[Answer]:
        """Ask the engine; nothing comes of it where all is cleared meanwhile, and the engine stops."""
        found: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if asked not in self._asked:
                return
            if event["event"] == "answer":
                found.append(event)  # type: ignore[arg-type]
                show(found)
            elif progress is not None:
                progress("Asking", event["done"], event["total"])

        asked: asyncio.Future[object] = asyncio.ensure_future(self._engine.call(AskClasses(paths), on_event))
        self._asked.add(asked)
        try:
            await asked
            return found if asked in self._asked else []
        except asyncio.CancelledError:
            if asked in self._asked:  # it is who has asked that was cancelled
                raise
            return []
        finally:
            self._asked.discard(asked)
