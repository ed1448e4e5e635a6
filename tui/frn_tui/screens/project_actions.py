"""Undo and redo, saving, opening, exporting."""

from collections.abc import Awaitable, Callable

from frn_tui.client import EngineError
from frn_tui.paths import absolute
from frn_tui.protocol import ELSEWHERE
from frn_tui.screens.dialogs import AskText, Choose
from frn_tui.screens.query_actions import QueryActions
from frn_tui.text import display_name

SUFFIX = ".frn.json"
"""As in `frn.inference.project`, which would import numpy."""


class ProjectActions(QueryActions):
    """What keeps the work."""

    def action_undo(self) -> None:
        if self.controller.session.can_undo:
            self.edit(lambda session: session.undo())
            self.jobs.say("undone   ctrl+r: redo")
        else:
            self.say("nothing to undo")

    def action_redo(self) -> None:
        if self.controller.session.can_redo:
            self.edit(lambda session: session.redo())
        else:
            self.say("nothing to redo")

    def action_save(self) -> None:
        self.save()

    def save(self, then: Callable[[], Awaitable[object]] | None = None) -> None:
        """Save the project, ask for its name where it has none, and go on once it is saved."""
        if self.controller.project is not None:
            self.start(self._save, self.controller.project, then)
        else:
            self._save_as("Save the project as", then)

    def _save_as(self, title: str, then: Callable[[], Awaitable[object]] | None) -> None:
        def named(path: str | None) -> None:
            if path:
                path = path if path.endswith(SUFFIX) else f"{path}{SUFFIX}"
                self.start(self._save, absolute(path), then)

        self.app.push_screen(AskText(title, f"classes{SUFFIX}"), named)

    async def _save(self, path: str, then: Callable[[], Awaitable[object]] | None) -> None:
        try:
            await self.controller.save(path)
        except EngineError as error:
            if ELSEWHERE in str(error):
                self._save_as(f"It is {ELSEWHERE}: save it as", then)
                return
            if "--replace" not in str(error):
                raise
            if not await self._may_replace(path):
                return
            await self.controller.save(path, replace=True)
        self.remember(path)
        self.say(f"saved {path}")
        if then is not None:
            await then()

    async def _may_replace(self, path: str) -> bool:
        kept = " (the old one is kept as .bak)" if path.endswith(SUFFIX) else ""
        title = f"{display_name(path, 40)} is there already"
        return await self.app.push_screen_wait(Choose(title, [f"replace it{kept}", "leave it"])) == 0

    def action_open(self) -> None:
        recent = self.recent()

        def chosen(index: int | None) -> None:
            if index is not None and index < len(recent):
                self.start(self._open, recent[index])
            elif index is not None:
                self.pick(
                    "Open a project, or a folder of class folders", lambda paths: self.start(self._open, paths[0])
                )

        if recent:
            self.app.push_screen(Choose("Open", [*recent, "another…"]), chosen)
        else:
            chosen(0)

    async def _open(self, path: str) -> None:
        if await self._may_forget():
            await self.open_place(path)

    async def open_place(self, path: str) -> None:
        """Open a project, or start one from a folder."""
        found = await self.controller.scan(path)
        if found["kind"] == "nothing":  # what is there stays
            self.say(found.get("reason", f"{path}: nothing to open"), severity="warning")
            return
        if found["kind"] == "project":
            await self.open_project(path)
        else:
            self.remember(path)
            await self.controller.start_anew()
            await self._add_paths([path])

    def action_export(self) -> None:
        def named(path: str | None) -> None:
            if path:
                self.start(self._export, absolute(path))

        hint = "*.onnx: photo in; label, probabilities and error map out   *.npz: the numbers of the classes, for numpy"
        self.app.push_screen(AskText("Export the classifier to", "classifier.onnx", hint), named)

    async def _export(self, path: str) -> None:
        try:
            await self.controller.export(path)
        except EngineError as error:
            if "is there already" not in str(error):
                raise
            if not await self._may_replace(path):
                return
            await self.controller.export(path, replace=True)
        self.say(f"{path} written")
