"""The photos that were asked about, and what the classes say of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from frn_tui.protocol import Answer, AskClasses, ClassScore, Engine


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
        self.at = 0
        """Which of them is on show."""

    @property
    def answer(self) -> Answer | None:
        return self.answers[self.at] if self.answers else None

    @property
    def rejected(self) -> int:
        return sum(bool(answer.get("unknown")) for answer in self.answers)

    def clear(self) -> None:
        self.answers, self.at = [], 0

    async def ask(self, paths: Sequence[str], progress: ShowProgress | None = None) -> list[Problem]:
        """Ask about photos; the first answer is shown as soon as it is there. Returns what cannot be read."""

        def show(answers: list[Answer]) -> None:
            if len(answers) == 1:
                self.answers, self.at = answers, 0
            if len(answers) <= 2 or len(answers) % 20 == 0:
                self._changed()

        answers = await self._answers(list(paths), show, progress)
        return [Problem(answer["path"], answer["reason"]) for answer in answers if "reason" in answer]

    async def show(self, index: int) -> None:
        if self.answers:
            self.at = index % len(self.answers)
            self._changed()
            await self.add_maps()

    async def ask_again(self, is_current: Callable[[], bool]) -> None:
        """The classes have changed: ask about the photo on show first, then, unless they change again, the others."""
        shown = self.answer
        if shown is None:
            return
        await self._renew(shown)
        if len(self.answers) == 1:
            return
        before = self.answers
        renewed = await self._answers([answer["path"] for answer in before])
        if self.answers is before and is_current() and len(renewed) == len(before):
            if "maps" in before[self.at]:
                renewed[self.at] = before[self.at]
            self.answers = renewed
            self._changed()

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
        found: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "answer":
                found.append(event)  # type: ignore[arg-type]
                show(found)
            elif progress is not None:
                progress("Asking", event["done"], event["total"])

        await self._engine.call(AskClasses(paths), on_event)
        return found
