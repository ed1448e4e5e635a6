"""The photos that were asked about, and what the classes say of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from frn_tui.protocol import Answer, AskClasses, Engine


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


ShowProgress = Callable[[Progress], None]


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
        answers: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "answer":
                answers.append(event)  # type: ignore[arg-type]
                if len(answers) == 1:
                    self.answers, self.at = answers, 0
                if len(answers) <= 2 or len(answers) % 20 == 0:
                    self._changed()
            elif event["event"] == "progress" and progress is not None:
                progress(Progress("Asking", event["done"], event["total"]))

        await self._engine.call(AskClasses(list(paths)), on_event)
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

    async def _answers(self, paths: list[str]) -> list[Answer]:
        found: list[Answer] = []

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "answer":
                found.append(event)  # type: ignore[arg-type]

        await self._engine.call(AskClasses(paths), on_event)
        return found
