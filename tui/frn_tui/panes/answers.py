"""The answers of a folder: which one is on show, the table of all, and writing them to a file."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Static

from frn_tui.panes.context import Context
from frn_tui.protocol import Answer, WriteText
from frn_tui.screens.dialogs import AskText
from frn_tui.screens.results import Results, as_csv, as_json


class AnswersLine(Static):
    """The last line of the query pane."""

    KEYS: ClassVar[tuple[Binding, ...]] = (Binding("l,L", "results", "Results"),)

    def __init__(self, context: Context) -> None:
        super().__init__(id="answers")
        self.context, self.controller = context, context.controller

    def show(self) -> None:
        query = self.controller.query
        count = len(query.answers)
        self.update(
            Text(f"{query.at + 1}/{count}   ‹ ,  . ›   l: table   {query.rejected} unknown" if count > 1 else "")
        )

    def go_to(self, index: int) -> None:
        self.context.start(self.controller.query.show, index, group="step")

    def action_results(self) -> None:
        answers, names = list(self.controller.query.answers), self.controller.names
        if not answers:
            self.context.say("p asks about a photo or a folder of them")
            return

        def chosen(outcome: int | str | None) -> None:
            if isinstance(outcome, int):
                self.go_to(outcome)
            elif outcome is not None:
                self._write_results(outcome, answers, names)

        self.app.push_screen(Results(answers, names, self.controller.query.at), chosen)

    def _write_results(self, kind: str, answers: Sequence[Answer], names: Mapping[int, str]) -> None:
        model = self.controller.model
        sha256 = model["sha256"] if model else ""
        if kind == "csv":
            text, name = as_csv(answers, names, sha256), "results.csv"
        else:
            text, name = as_json(answers, names, sha256, self.controller.threshold), "results.jsonl"
        self.context.ask_path(AskText("Write the results to", name), self._write, text)

    async def _write(self, path: str, text: str) -> None:
        await self.controller.engine.call(WriteText(path, text))
        self.context.say(f"{path} written")
