"""The project: what is open, undo and redo, saving, opening, exporting."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Static

from frn_tui.client import EngineError
from frn_tui.panes.context import Context
from frn_tui.paths import absolute
from frn_tui.protocol import EXISTS, OPEN_ELSEWHERE
from frn_tui.screens.dialogs import AskText, Choose
from frn_tui.text import count_of, display_name

SUFFIX = ".frn.json"
"""As in `frn.inference.project`, which would import numpy."""


class ProjectBar(Static):
    """The title line."""

    KEYS: ClassVar[tuple[Binding, ...]] = (
        Binding("u", "undo", "Undo"),
        Binding("ctrl+r", "redo", "Redo", show=False),
        Binding("ctrl+s", "save", "Save"),
        Binding("ctrl+o", "open", "Open", show=False),
        Binding("e", "export", "Export"),
    )

    @dataclass
    class Picked(Message):
        """Something was chosen to be opened."""

        path: str

    def __init__(self, context: Context) -> None:
        super().__init__(id="title")
        self.context, self.controller = context, context.controller

    def show(self) -> None:
        controller, state = self.controller, self.controller.session.state
        count = sum(len(entry.supports) for entry in state.classes)
        name = display_name(controller.project.rpartition("/")[2], 30) if controller.project else "unsaved"
        left = f"frn-tui  {'' if controller.session.is_saved else '● '}{name}"
        trouble = f" · {count_of(len(controller.problems), 'problem')} (b)" if controller.problems else ""
        classes = "1 class" if len(state.classes) == 1 else f"{len(state.classes)} classes"
        right = f"{classes} · {count_of(count, 'photo')}{trouble}"
        model = "starting the engine…"
        if (opened := controller.model) is not None:
            name_and_device = f"{display_name(controller.model_name, 24)} · {opened['device']}"
            grid = "×".join(map(str, [*opened["grid"], opened["d"]]))
            model = f"{name_and_device} · {opened['side']}×{opened['side']} · {grid}"
        width = max(self.screen.size.width - 2, 10)
        room = width - len(left) - len(right)
        line = Text(left, style="bold")
        line.append(f"{model:^{room}}" if room > len(model) + 2 else " " * max(room, 1), style="not bold dim")
        line.append(right, style="not bold")
        line.truncate(width)
        self.update(line)

    def action_undo(self) -> None:
        if self.controller.session.can_undo:
            self.context.edit(lambda session: session.undo())
            self.context.say("undone   ctrl+r: redo")
        else:
            self.context.say("nothing to undo")

    def action_redo(self) -> None:
        if self.controller.session.can_redo:
            self.context.edit(lambda session: session.redo())
        else:
            self.context.say("nothing to redo")

    def action_save(self, then: Callable[[], Awaitable[object]] | None = None) -> None:
        """Save the project, ask for its name where it has none, and go on once it is saved."""
        if self.controller.project is not None:
            self.context.start(self._save, self.controller.project, then)
        else:
            self._save_as("Save the project as", then)

    def _save_as(self, title: str, then: Callable[[], Awaitable[object]] | None) -> None:
        def named(path: str) -> None:
            if path:
                path = path if path.endswith(SUFFIX) else f"{path}{SUFFIX}"
                self.context.start(self._save, absolute(path), then)

        self.context.ask(AskText(title, f"classes{SUFFIX}"), named)

    async def _save(self, path: str, then: Callable[[], Awaitable[object]] | None) -> None:
        try:
            if not await self._write(path, self.controller.save):
                return
        except EngineError as error:
            if error.code != OPEN_ELSEWHERE:
                raise
            self._save_as("It is open in another frn-tui: save it as", then)
            return
        self.context.remember(path)
        self.context.say(f"saved {path}")
        if then is not None:
            await then()

    async def _write(self, path: str, write: Callable[..., Awaitable[None]]) -> bool:
        """Write a file, and ask before another is replaced; whether it was written."""
        try:
            await write(path)
        except EngineError as error:
            if error.code != EXISTS:
                raise
            kept = " (the old one is kept as .bak)" if path.endswith(SUFFIX) else ""
            title = f"{display_name(path, 40)} is there already"
            if await self.context.chosen(title, [f"replace it{kept}", "leave it"]) != 0:
                return False
            await write(path, replace=True)
        return True

    def action_export(self) -> None:
        hint = "*.onnx: photo in; label, probabilities and error map out   *.npz: the numbers of the classes, for numpy"
        self.context.ask_path(AskText("Export the classifier to", "classifier.onnx", hint), self._export)

    async def _export(self, path: str) -> None:
        if await self._write(path, self.controller.export):
            self.context.say(f"{path} written")

    def action_open(self) -> None:
        recent = self.context.recent()

        def chosen(index: int) -> None:
            if index < len(recent):
                self.post_message(self.Picked(recent[index]))
            else:
                title = "Open a project, or a folder of class folders"
                self.context.pick(title, lambda paths: self.post_message(self.Picked(paths[0])))

        if recent:
            self.context.ask(Choose("Open", [*recent, "another…"]), chosen)
        else:
            chosen(0)

    async def may_forget(self) -> bool:
        """Whether what is unsaved may go."""
        if self.controller.session.is_saved:
            return True
        options = ["go on, and forget what is unsaved", "stay"]
        return await self.context.chosen("There are unsaved changes", options) == 0

    async def open_project(self, path: str) -> None:
        """Open a project file; ask how where another app has it open."""
        copy = False
        if (holder := await self.controller.holder(path)) is not None:
            options = [
                "open a copy; saving asks for a name",
                "take it over; the other can no longer save it",
                "leave it",
            ]
            name = display_name(path.rpartition("/")[2], 24)
            chosen = await self.context.chosen(f"{name} is open in another frn-tui (process {holder})", options)
            if chosen not in (0, 1):
                return
            copy = chosen == 0
        await self.controller.load(path, self.context.progress, copy=copy)
        self.context.remember(path)
        self.context.say(f"opened a copy of {path}" if copy else f"opened {path}")
