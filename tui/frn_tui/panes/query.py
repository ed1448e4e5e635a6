"""Queries about photos, and corrections of the results."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from frn.errors import FrnError
from frn.inference.session import ClassEntry
from frn_tui.client.file_requests import Found, ListFolder, StampFiles
from frn_tui.document.queries import best_score
from frn_tui.panes.answers import AnswersLine
from frn_tui.panes.context import Context, Pane
from frn_tui.panes.picture import PicturePane
from frn_tui.panes.verdicts import ThresholdKeys, Verdicts
from frn_tui.terminal.paths import absolute, name_of
from frn_tui.terminal.text import count_of, display_name
from frn_tui.widgets.bars import BarRow, Bars

LANDSCAPE = 3
"""Columns per row above which the pane is in landscape."""


class QueryPane(ThresholdKeys, Pane):
    """The queried photo, and the score of each class for it."""

    KEYS: ClassVar[tuple[Binding, ...]] = (
        Binding("p", "ask", "Ask"),
        Binding("w", "watch", "Watch", show=False),
        Binding("y", "right", "Right"),
        Binding("x", "none_of_them", "None of them", show=False),
        Binding("comma,less_than_sign", "step(-1)", "Previous answer", show=False),
        Binding("full_stop,greater_than_sign", "step(1)", "Next answer", show=False),
        Binding("minus", "threshold(-0.01)", "Threshold down", show=False),
        Binding("plus,equals_sign", "threshold(0.01)", "Threshold up", show=False),
        Binding("percent_sign", "type_threshold", "Threshold by number", show=False),
        Binding("0", "calibrate", "Calibrate", show=False),
        Binding("c", "copy", "Copy", show=False),
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "step(1)", "Next answer", show=False),
        Binding("k", "step(-1)", "Previous answer", show=False),
    ]

    @dataclass
    class Asked(Message):
        """Photos or folders were chosen as queries."""

        paths: list[str]

    def __init__(self, context: Context) -> None:
        super().__init__(context, id="query-pane")
        self.verdicts = Verdicts(context, self.action_ask)
        self.picture, self.bars = PicturePane(context), Bars(id="bars")
        self.answers = AnswersLine(context, self.verdicts)
        self.watched: str | None = None
        """Folder whose new photos become queries."""
        self.came = 0
        """Photos that have come into it."""

    def compose(self) -> ComposeResult:
        yield self.picture
        with Vertical(id="verdict"):
            yield self.bars
            yield self.answers

    def on_resize(self, event: events.Resize) -> None:
        """Place the prediction beside the photo in landscape, otherwise below it."""
        self.set_class(event.size.width >= LANDSCAPE * event.size.height, "-landscape")

    def show(self) -> None:
        controller, answer = self.controller, self.controller.query.answer
        of = f" · {display_name(answer['path'].rpartition('/')[2], 30)}" if answer else ""
        watching = f" · watching {name_of(self.watched)}/, {self.came} came" if self.watched else ""
        self.border_title = Text(f"Query{of}{watching}")
        names = controller.names
        numbers = {class_id: number for number, class_id in enumerate(names, 1) if number < 10}
        rows = [
            BarRow(names[score["id"]], score["probability"], score["explained"], numbers.get(score["id"]), score["id"])
            for score in (answer.get("scores", []) if answer else [])
            if score["id"] in names
        ]
        threshold = answer.get("threshold", controller.threshold) if answer else controller.threshold
        self.bars.show(rows, threshold, unknown=bool(answer and answer.get("unknown")))
        self.picture.show()
        self.answers.show()

    def show_keys(self, *, in_photos: bool) -> None:
        """Show the keys; digits assign the query to a class unless the class's photos have the focus."""
        keys = "y right   x none   tab: it is N" if in_photos else "y right   1-9 it is N   m by name   x none"
        self.border_subtitle = Text(keys if self.controller.query.answer else "")
        self.picture.name_key("H" if in_photos else "h")  # among photos, h moves left

    def action_ask(self) -> None:
        self.context.pick("Ask about a photo, several, or a folder", lambda paths: self.post_message(self.Asked(paths)))

    async def ask_now(self, paths: Sequence[str]) -> None:
        files: list[str] = []
        for path in paths:
            found = await self.controller.scan(path)
            if found["kind"] == "nothing":
                self.context.say(found.get("reason", f"{path}: nothing to classify"), severity="warning")
            files += everything_in(found)
        if files:
            self.picture.heat_class = None
            await self.controller.ask(files, self.context.progress)
            self._tell_of_missing()

    def _tell_of_missing(self) -> None:
        missing, skipped = len(self.controller.missing), len(self.controller.skipped)
        if missing:
            out = f"{skipped} of them {'does' if skipped == 1 else 'do'} not count"
            counted = out if skipped else "what is known of them still counts"
            said = f"{count_of(missing, 'example')} missing; {counted}   R: find them"
            self.context.say(said, severity="warning" if skipped else "information")

    def action_step(self, step: int) -> None:
        if len(self.controller.query.answers) > 1:
            self.picture.heat_class = None
            self.answers.go_to(self.controller.path_after(step))
            if not self.controller.arrangement.paths:
                self.context.say(f"no answers match: {self.controller.arrangement.words}   l: all")

    def assign(self, target: ClassEntry) -> None:
        """Assign the shown photo to a class and go on to the next."""
        answer = self.controller.query.answer
        self.verdicts.label([] if answer is None else [answer], target.id)
        self.action_step(1)

    def action_right(self) -> None:
        best = best_score(self.controller.query.answer)
        for entry in self.controller.session.state.classes:
            if best and entry.id == best["id"]:
                self.assign(entry)

    def action_none_of_them(self) -> None:
        """Say that the photo on show is of none of the classes, and continue to the next."""
        if (answer := self.controller.query.answer) is not None:
            self.verdicts.set_aside([answer])
            self.action_step(1)

    @on(Bars.Clicked)
    def take_bar(self, event: Bars.Clicked) -> None:
        """Show what the class fails to explain on a click; assign the photo to it on a double click."""
        if event.twice and (entry := self.controller.entry(event.class_id)) is not None:
            self.assign(entry)
        else:
            self.picture.show_class(event.class_id)

    @on(Bars.ThresholdDragged)
    def drag(self, event: Bars.ThresholdDragged) -> None:
        if event.released:  # the mark moves by itself; only its final position is an edit
            self.verdicts.set_threshold(event.value)

    def action_watch(self) -> None:
        if self.watched is not None:
            self.context.say(f"{self.watched} is no longer watched")
            self.watched = None
            self.show()
            return

        def picked(paths: list[str]) -> None:
            self.watched = absolute(paths[0])
            self.context.start(self.watch_folder, self.watched, group="watch")

        self.context.pick("Watch a folder: new photos are asked about", picked)

    async def watch_folder(self, folder: str) -> None:
        """Ask about photos of a folder, and of those in it, that are new or change, until it is not watched."""
        await self.controller.engine.call(ListFolder(folder))  # raises an error if it does not exist
        try:
            await self._watch(folder)
        except FrnError as error:
            self.watched = None
            raise FrnError(f"{error}   {folder} is no longer watched   w: watch") from error

    async def _watch(self, folder: str) -> None:
        asked = before = await self._stamps(folder)
        self.came = 0
        self.show()
        self.context.say(f"watching {folder}   w: stop")
        while self.watched == folder:
            await asyncio.sleep(1)
            stamps = await self._stamps(folder)
            # What has changed since the last look is still being copied; one that rests half-way is asked about again.
            whole = [file for file, stamp in stamps.items() if stamp != asked.get(file) and stamp == before.get(file)]
            before = stamps
            if whole and self.watched == folder:
                self.came += len([file for file in whole if file not in asked])
                asked = {**asked, **{file: stamps[file] for file in whole}}
                await self.controller.ask(whole, self.context.progress)

    async def _stamps(self, folder: str) -> dict[str, list[int]]:
        files = everything_in(await self.controller.scan(folder))
        return await self.controller.engine.call(StampFiles(files)) if files else {}

    def action_copy(self) -> None:
        answer = self.controller.query.answer
        if answer is None:
            return
        best = best_score(answer)
        said = self.controller.names.get(best["id"], "?") if best and not answer.get("unknown") else "unknown"
        copied = f"{answer['path']}\t{said}" + (f"\t{best['probability']:.4f}" if best else "")
        self.app.copy_to_clipboard(copied.encode(errors="backslashreplace").decode())  # a name may not be UTF-8
        self.context.say("copied: path, verdict and probability")


def everything_in(found: Found) -> list[str]:
    """Return the photos of a folder and its subfolders."""
    return found["files"] + [file for members in found["classes"].values() for file in members]
