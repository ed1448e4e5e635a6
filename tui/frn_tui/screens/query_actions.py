"""Asking, and correcting the answers."""

import asyncio
from collections.abc import Sequence

from rich.text import Text
from textual import on

from frn_tui.paths import absolute
from frn_tui.protocol import Answer
from frn_tui.screens.class_actions import ClassActions
from frn_tui.screens.dialogs import AskText, Page
from frn_tui.screens.results import Results, as_csv, as_json
from frn_tui.text import display_name, percent
from frn_tui.widgets.bars import Bars
from frn_tui.widgets.gallery import Gallery


class QueryActions(ClassActions):
    """Questions about photos, folders and watched folders; the threshold; results."""

    @on(Gallery.Opened)
    def ask_about_example(self, event: Gallery.Opened) -> None:
        self.ask([event.item.path])

    def action_ask(self) -> None:
        self.pick("Ask about a photo, several, or a folder", self.ask)

    def ask(self, paths: Sequence[str]) -> None:
        """Ask about photos or folders of them."""
        self.show_pane("query")
        if not (self.gallery.has_focus and self.has_class("-wide")):  # who looks through photos goes on with that
            self.preview.focus()
        self.start(self.ask_now, paths)

    async def ask_now(self, paths: Sequence[str]) -> None:
        """Ask, and wait for the answers."""
        files: list[str] = []
        for path in paths:
            found = await self.controller.scan(path)
            if found["kind"] == "classes":
                files += [file for members in found["classes"].values() for file in members]
            elif found["kind"] == "nothing":
                self.say(found.get("reason", f"{path}: nothing to ask about"), severity="warning")
            else:
                files += found["files"]
        if files:
            self.heat_class = None
            await self.controller.ask(files, self.progress)

    def action_step(self, step: int) -> None:
        if len(self.controller.answers) > 1:
            self.heat_class = None
            self.start(self.controller.show_answer, self.controller.at + step, group="step")

    def action_right(self) -> None:
        answer = self.controller.answer
        if answer and answer.get("scores"):
            entry = next((e for e in self.controller.session.state.classes if e.id == answer["scores"][0]["id"]), None)
            if entry is not None:
                self.start(self._correct, entry, group="edit")

    def action_none_of_them(self) -> None:
        """The threshold rises just above what the best class explains of this photo."""
        answer = self.controller.answer
        if answer and answer.get("scores"):
            share = min(max(score["explained"] for score in answer["scores"]) + 0.001, 1.0)
            if share > self.controller.threshold:
                self.edit(lambda session: session.set_threshold(share), f"unknown below {percent(share)} explained")

    def action_threshold(self, step: float) -> None:
        value = min(max(round(self.controller.threshold + step, 3), 0.0), 1.0)
        self.edit(lambda session: session.set_threshold(value), f"unknown below {percent(value)} explained")

    def action_calibrate(self) -> None:
        self.edit(lambda session: session.set_threshold(None), "threshold from the examples")

    @on(Bars.ThresholdDragged)
    def drag(self, event: Bars.ThresholdDragged) -> None:
        if event.released:  # the mark follows the mouse by itself; only where it ends is an edit
            self.edit(lambda session: session.set_threshold(event.value))

    def action_watch(self) -> None:
        def picked(paths: list[str]) -> None:
            self.watched = paths[0]
            self.start(self._watch, paths[0], group="watch")

        self.pick("Watch a folder: new photos are asked about", picked)

    async def _watch(self, folder: str) -> None:
        seen = set((await self.controller.scan(folder))["files"])
        self.say(f"watching {folder}   esc: stop")
        while self.watched == folder:
            await asyncio.sleep(1)
            files = (await self.controller.scan(folder))["files"]
            fresh = [file for file in files if file not in seen]
            seen.update(fresh)
            if fresh:
                await self.controller.ask(fresh, self.progress)

    def action_results(self) -> None:
        answers = list(self.controller.answers)
        if not answers:
            self.say("p asks about a photo or a folder of them")
            return
        names = self.names

        def chosen(outcome: int | str | None) -> None:
            if isinstance(outcome, int):
                self.start(self.controller.show_answer, outcome, group="step")
            elif outcome is not None:
                self._write_results(outcome, answers, names)

        self.app.push_screen(Results(answers, names, self.controller.at), chosen)

    def _write_results(self, kind: str, answers: Sequence[Answer], names: dict[int, str]) -> None:
        text = (as_csv if kind == "csv" else as_json)(
            answers, names, self.controller.model["sha256"] if self.controller.model else ""
        )

        def named(path: str | None) -> None:
            if path:
                self.start(self._write, absolute(path), text)

        suffix = "csv" if kind == "csv" else "jsonl"
        self.app.push_screen(AskText("Write the results to", f"results.{suffix}"), named)

    async def _write(self, path: str, text: str) -> None:
        await self.controller.engine.call("write", path=path, text=text, replace=False)
        self.say(f"{path} written")

    def action_confusion(self) -> None:
        def asked(text: str | None) -> None:
            if text and text.isdigit() and int(text) > 0:
                self.start(self._confusion, int(text))
            elif text is not None:
                self.say("a number of examples, at least 1", severity="warning")

        hint = "so many examples of each class are enrolled, the others asked about"
        self.app.push_screen(AskText("Hide and test: shots", "1", hint), asked)

    async def _confusion(self, shot: int) -> None:
        found = await self.controller.hide_and_test(shot)
        names = self.names
        lines = Text(no_wrap=True)
        room = max(len(str(n)) for n in (len(found["ids"]), *(n for row in found["counts"] for n in row)))
        width = max([len(names.get(i, "?")) for i in found["ids"]] + [4])
        right = f"{percent(found['accuracy'], 1)} right with {shot} example{'s' * (shot > 1)} per class"
        lines.append(f"{right}\n", style="bold")
        lines.append("rows are true, columns named\n\n")
        lines.append(
            " " * (min(width, 24) + 3) + "".join(f" {n:>{room}}" for n in range(1, len(found["ids"]) + 1)) + "\n"
        )
        for n, (i, row) in enumerate(zip(found["ids"], found["counts"], strict=True), 1):
            lines.append(f"{n:>2} {display_name(names.get(i, '?'), 24):<{min(width, 24)}}")
            for column, count in enumerate(row, 1):
                lines.append(f" {count or '·':>{room}}", style="bold" if column == n else "")
            lines.append("\n")
        self.app.push_screen(Page("Hide and test", lines, wide=True))
