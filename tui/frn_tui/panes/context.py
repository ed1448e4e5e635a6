"""Shared parts of the panes: the controller, background work, and questions to the user."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from textual.containers import Vertical
from textual.worker import Worker

from frn.errors import FrnError
from frn.projects.session import Moves, Session
from frn_tui.client.file_requests import PathContents
from frn_tui.client.protocol import EXISTS, EngineError
from frn_tui.dialogs.dialogs import Choose, Dialog
from frn_tui.document.controller import Added, Controller
from frn_tui.document.photo_files import step_over, take_back
from frn_tui.document.queries import Problem
from frn_tui.settings.keys import KeyedScreen
from frn_tui.settings.settings import PLACES, Settings
from frn_tui.terminal.modes import Mode
from frn_tui.terminal.paths import absolute
from frn_tui.terminal.text import count_of, display_name
from frn_tui.widgets.jobs import JobLine

Given = TypeVar("Given")
LEVELS = {1: "folders of the first level", 2: "folders of the second level"}


class Context:
    """Context given to every pane by the screen that composes them."""

    def __init__(self, screen: KeyedScreen[None], controller: Controller, settings: Settings, mode: Mode) -> None:
        self.screen, self.controller, self.settings = screen, controller, settings
        controller.progress, controller.say = self.progress, self.say
        self.mode: Mode = mode
        self.jobs = JobLine(id="jobs")
        self.lines = [self.jobs]  # status lines: that of the workspace, and that of a screen over it
        self.watchers: list[Callable[[], object]] = []  # called after every change: screens over the workspace
        self.open: Callable[[str], object] = lambda path: None  # opens a project, a bundle or a folder
        self.show_example: Callable[[str], object] = lambda path: None  # shows an example among the photos of its class
        self.browsed = "."
        self._job_began = 0.0

    def change(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)

    @property
    def recent(self) -> list[str]:
        """Return the recent projects and folders, also of other apps."""
        return Settings.read().recent or self.settings.recent

    def remember(self, path: str) -> None:
        """Add a project or folder to the recent ones immediately, because other apps may follow."""
        self.settings = replace(self.settings, recent=self.recent).opened(absolute(path))
        self.settings.write()

    def start(self, work: Callable[..., Awaitable[object]], *arguments: object, group: str = "job") -> Worker[None]:
        """Run work in the background; a failure is shown as a message."""
        is_told = group in ("job", "watch")  # others replace each other: not cancelled by the user
        guarded = partial(self._guarded, is_told, work, *arguments)  # create the awaitable only when it runs
        return self.screen.run_worker(guarded, group=group, exclusive=group != "job", exit_on_error=False)

    async def _guarded(self, is_told: bool, work: Callable[..., Awaitable[object]], *arguments: object) -> None:
        try:
            await work(*arguments)
        except FrnError as error:
            self.say(str(error), severity="error")
            self._each_line(JobLine.clear)
        except asyncio.CancelledError:
            if is_told:
                self.say("Cancelled")
            raise
        finally:
            if is_told:  # not after an edit, which may end while a job shows its progress
                self._job_began = 0.0
                self._each_line(JobLine.clear)

    def edit(self, change: Callable[[Session], object], said: str = "") -> None:
        """Apply an edit immediately, because keys are faster than the engine; a rejection is shown as a message.

        A change without effect is not an edit: it cannot be undone and must not interrupt the work of the previous
        edit.
        """
        session = self.controller.session
        before = session.state
        try:
            change(session)
        except FrnError as error:
            self.say(str(error), severity="error")
            return
        is_edit = session.state is not before
        if is_edit and said:
            session.name_act(said)
        if said:
            self.say(f"{said}   u: undo" if is_edit else said)
        if is_edit:
            self.start(self.controller.sync, group="edit")

    def step_back(self, *, undo: bool) -> str:
        """Undo the last edit, or redo the last undone one; return a description of the outcome."""
        session = self.controller.session
        if not (session.can_undo if undo else session.can_redo):
            if undo:
                self.start(self._take_back)
                return ""
            return "nothing to redo"
        before, act = session.state, session.state.act if undo else session.undone
        self.edit(lambda session: session.undo() if undo else session.redo())
        if before.moves is not session.state.moves and (moves := before.moves if undo else session.state.moves):
            self.start(self._step_over, moves, undo)
            return f"moving {count_of(len(moves.photos), 'photo')} {'back' if undo else 'again'}"
        self.start(self.controller.find_missing, group="missing")  # examples may have moved
        return f"undone: {act or 'an edit'}   ctrl+r: redo" if undo else f"redone: {act or 'an edit'}   u: undo"

    async def _take_back(self) -> None:
        if said := await take_back(self.controller, self.chosen):
            self.say(said)

    async def _step_over(self, moves: Moves, undo: bool) -> None:
        self.say(await step_over(self.controller, moves, undo=undo))

    def progress(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == 0 or self._job_began == 0:
            self._job_began = now
        if done < total:
            remaining = (now - self._job_began) / done * (total - done) if done else None
            self._each_line(lambda line: line.show(what, done, total, remaining))
        else:  # later work, such as watching a folder, is not part of it
            self._job_began = 0.0
            self._each_line(JobLine.clear)

    def _each_line(self, act: Callable[[JobLine], object]) -> None:
        for line in self.lines:
            act(line)

    def say(self, text: str, *, severity: str = "information") -> None:
        """Show a message: success next to the jobs, problems as a toast. Markup is off, since it may contain a name."""
        if severity == "information":
            self._each_line(lambda line: line.say(text))
        else:
            self.screen.notify(display_name(text), severity=severity, markup=False)  # type: ignore[arg-type]

    def copy(self, lines: Sequence[str], what: str) -> None:
        if lines:  # a name may not be UTF-8
            self.screen.app.copy_to_clipboard("\n".join(lines).encode(errors="backslashreplace").decode())
            self.say(f"copied {what}")

    def pick(self, title: str, then: Callable[[list[str]], object]) -> None:
        """Ask for photos, a folder or a project, and call `then` with their paths."""
        places = list(dict.fromkeys([*self.settings.recent, *self.settings.places]))
        from frn_tui.dialogs.picker import Picker  # not needed for the first paint

        picker = Picker(self.controller.engine, title, self.mode, places, self.browsed)

        def picked(paths: list[str] | None) -> None:
            self.browsed = picker.folder
            if paths is not None:
                used = dict.fromkeys([*map(absolute, paths[:PLACES]), *self.settings.places])
                self.change(places=list(used)[:PLACES])
                then(paths)

        self.screen.app.push_screen(picker, picked)

    def ask(self, dialog: Dialog[Given | None], then: Callable[[Given], object]) -> None:
        """Show a dialogue and call `then` with its result, unless it is cancelled."""

        def answered(given: Given | None) -> None:
            if given is not None:
                then(given)

        self.screen.app.push_screen(dialog, answered)

    def list_duplicates(self, outcome: Added) -> None:
        if outcome.duplicates:
            self.controller.problems += [Problem(str(d.path), str(d).partition(": ")[2]) for d in outcome.duplicates]
            self.controller.listener()

    def tell_of_unusable(self, unusable: Sequence[Problem]) -> None:
        """Add paths that cannot be used to the problems, with one message for all."""
        if unusable:
            self.controller.problems += unusable
            more = f"; and {len(unusable) - 1:,} others   b: list them" if len(unusable) > 1 else ""
            self.say(f"{unusable[0].reason}{more}", severity="warning")

    def is_named(self, path: str) -> bool:
        """Return whether a path was typed; show a message if not."""
        if not path.strip():
            self.say("no name given; nothing was written", severity="warning")
        return bool(path.strip())

    async def written(self, path: str, write: Callable[..., Awaitable[object]]) -> bool:
        """Write a file, asking before replacing an existing one; return whether it was written."""
        try:
            await write(path)
        except EngineError as error:
            if error.code != EXISTS:
                raise
            kept = " (the old one is kept as .bak)" if path.endswith(".frn.json") else ""
            title = f"{display_name(path, 40)} already exists"
            if await self.chosen(title, [f"replace it{kept}", "cancel"]) != 0:
                return False
            await write(path, replace=True)
        return True

    async def answer(self, dialog: Dialog[Given | None]) -> Given | None:
        """Return the result of a dialogue, or None if it is cancelled; for background work."""
        return await self.screen.app.push_screen_wait(dialog)

    async def classes_in(self, path: str) -> PathContents:
        """Return the contents of a path; if its folders can be read in several ways, ask which ones are the classes."""
        contents = await self.controller.scan(path)
        if contents["kind"] != "levels":
            return contents
        options = []
        for each in contents["levels"]:
            counts, by = each["classes"], LEVELS.get(each["level"], "each folder with photos")
            said = f"{count_of(len(counts), 'class')}, {sum(counts.values()):,} photos: {', '.join(list(counts)[:3])}"
            options.append(display_name(f"{by}: {said}", 100))
        photos = [each["photos"] for each in contents["levels"]]
        chosen = await self.answer(Choose("Which folders are the classes?", options, photos, self.mode))
        if chosen is None:
            return {"kind": "nothing", "files": [], "classes": {}, "reason": f"{path}: was not opened"}
        return await self.controller.scan(path, contents["levels"][chosen]["level"])

    async def chosen(self, title: str, options: Sequence[str]) -> int | None:
        return await self.answer(Choose(title, options))


class Pane(Vertical):
    """A part of the workspace with its own border."""

    def __init__(self, context: Context, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.context, self.controller = context, context.controller
