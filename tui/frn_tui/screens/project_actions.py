"""Undo and redo, saving, opening, exporting."""

from frn.inference.session import Session
from frn_tui.client import EngineError
from frn_tui.paths import absolute
from frn_tui.screens.dialogs import AskText, Choose
from frn_tui.screens.picker import Picked, Picker
from frn_tui.screens.query_actions import QueryActions
from frn_tui.text import display_name


class ProjectActions(QueryActions):
    """What keeps the work."""

    def action_undo(self) -> None:
        if self.bench.session.can_undo:
            self.edit(lambda session: session.undo())
            self.jobs.say("undone   ctrl+r: redo")
        else:
            self.say("nothing to undo")

    def action_redo(self) -> None:
        if self.bench.session.can_redo:
            self.edit(lambda session: session.redo())
        else:
            self.say("nothing to redo")

    def action_save(self) -> None:
        if self.bench.project is not None:
            self.start(self._save(self.bench.project, replace=False))
            return

        def named(path: str | None) -> None:
            if path:
                path = path if path.endswith(".frn.json") else f"{path}.frn.json"
                self.start(self._save(absolute(path), replace=False))

        self.app.push_screen(AskText("Save the project as", "classes.frn.json"), named)

    async def _save(self, path: str, *, replace: bool) -> None:
        try:
            await self.bench.save(path, replace=replace)
        except EngineError as error:
            if replace or "--replace" not in str(error):
                raise
            options = ["replace it (the old one is kept as .bak)", "leave it"]
            if await self.app.push_screen_wait(Choose(f"{display_name(path, 40)} is there already", options)) != 0:
                return
            await self.bench.save(path, replace=True)
        self.remember(path)
        self.say(f"saved {path}")

    def action_open(self) -> None:
        recent = self.recent()

        def picked(found: Picked | None) -> None:
            if found is not None:
                self.start(self._open(found.paths[0]))

        def chosen(index: int | None) -> None:
            if index is not None and index < len(recent):
                self.start(self._open(recent[index]))
            elif index is not None:
                self.app.push_screen(
                    Picker(self.bench.engine, "Open a project, or a folder of class folders", self.mode), picked
                )

        if recent:
            self.app.push_screen(Choose("Open", [*recent, "another…"]), chosen)
        else:
            chosen(0)

    async def _open(self, path: str) -> None:
        if not self.bench.session.is_saved:
            options = ["go on, and forget what is unsaved", "stay"]
            if await self.app.push_screen_wait(Choose("There are unsaved changes", options)) != 0:
                return
        await self.open_place(path)

    async def open_place(self, path: str) -> None:
        """Open a project, or start one from a folder."""
        found = await self.bench.scan(path)
        if found["kind"] == "nothing":  # what is there stays
            self.say(found.get("reason", f"{path}: nothing to open"), severity="warning")
            return
        self.remember(path)
        if found["kind"] == "project":
            await self.open_project(path)
        else:
            self.bench.session, self.bench.project, self.bench.answers = Session(), None, []
            await self._add_paths([path])

    async def open_project(self, path: str) -> None:
        """Open a project file."""
        await self.bench.load(path, self.progress)
        self.say(f"opened {path}")

    def action_export(self) -> None:
        def named(path: str | None) -> None:
            if path:
                self.start(self._export(absolute(path)))

        hint = "one ONNX file: photo in; label, probabilities and error map out"
        self.app.push_screen(AskText("Export the classifier to", "classifier.onnx", hint), named)

    async def _export(self, path: str) -> None:
        await self.bench.export(path)
        self.say(f"{path} written: it runs wherever onnxruntime does")
