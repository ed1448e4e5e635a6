"""The project: title, undo and redo, saving, opening, and recovery of unsaved work after a crash."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any

from rich.text import Text
from textual.widgets import Static
from textual.worker import Worker

from frn_tui.client.file_requests import DiscardJournal, LockProject, Recover, Recovered, UnpackBundle
from frn_tui.client.protocol import OPEN_ELSEWHERE, EngineError
from frn_tui.dialogs.dialogs import AskText, Choose
from frn_tui.document.photo_files import relocate
from frn_tui.panes.context import Context
from frn_tui.terminal.paths import absolute, name_of, shortened
from frn_tui.terminal.text import count_of, display_name

PANES = ("classes", "photos", "query")
SUFFIX = ".frn.json"  # suffix of projects; not imported from `frn.projects.project`, which would import numpy


class ProjectBar(Static):
    """Title line of the workspace."""

    def __init__(self, context: Context) -> None:
        super().__init__(id="title")
        self.context, self.controller = context, context.controller
        self.recovery = Recovery(context)
        context.open = self.open

    def show(self) -> None:
        if not self.is_attached:
            return
        controller, state = self.controller, self.controller.session.state
        count = max(sum(len(entry.supports) for entry in state.classes), sum(controller.coming.values()))
        name = display_name(controller.title, 30)
        title = f"frn-tui  {'' if controller.session.is_saved else '● '}{name}"
        trouble = f" · {len(controller.missing)} missing (R)" if controller.missing else ""
        trouble += f" · {count_of(len(controller.problems), 'problem')} (b)" if controller.problems else ""
        right = f"{count_of(len(state.classes), 'class')} · {count_of(count, 'photo')}{trouble}"
        model = "starting the engine…"
        if controller.model is not None:
            finds = " · finds subjects" if state.search != "none" else ""
            model = f"{display_name(controller.model_name, 24)}{finds}"
        width = max(self.screen.size.width - 2, 10)
        if self.screen.has_class("-narrow"):
            shown = next((name for name in PANES if self.screen.has_class(f"-show-{name}")), "")
            model = "tab: " + " ".join(name.upper() if name == shown else name for name in PANES)
        room = width - len(title) - len(right)
        line = Text(title, style="bold")
        line.append(f"{model:^{room}}" if room > len(model) + 2 else " " * max(room, 1), style="not bold")
        line.append(right, style="not bold")
        line.truncate(width)
        self.update(line)

    def action_step_back(self, undo: bool) -> None:
        if said := self.context.step_back(undo=undo):
            self.context.say(said)

    def action_save(self, then: Callable[[], Awaitable[object]] | None = None) -> None:
        """Save the project, asking for a name if it has none, and then call `then`."""
        if self.controller.project is not None:
            self.context.start(self._save, self.controller.project, then)
        else:
            self.action_save_as(then=then)

    def action_save_as(
        self, title: str = "Save the project as", then: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        def named(path: str) -> None:
            if not self.context.is_named(path):
                return
            if path.rpartition("/")[2] in ("", ".", "..", "~"):
                self.context.say(f"{path}: is a folder; choose a file name in it", severity="error")
            else:
                path = path if path.endswith(SUFFIX) else f"{path}{SUFFIX}"
                self.context.start(self._save, absolute(path), then)

        self.context.ask(AskText(title, f"{self.file_name}{SUFFIX}"), named)

    @property
    def file_name(self) -> str:
        named = self.controller.project or self.controller.place
        return name_of(named).removesuffix(SUFFIX) if named else "classes"

    async def _save(self, path: str, then: Callable[[], Awaitable[object]] | None) -> None:
        try:
            if not await self.context.written(path, self.controller.save):
                return
        except EngineError as error:
            if error.code != OPEN_ELSEWHERE:
                raise
            self.action_save_as("Another frn-tui has it open: save it as", then)
            return
        self.context.remember(path)
        self.context.say(f"saved {path}")
        if then is not None:
            await then()

    def action_open(self) -> None:
        """Ask for a recent path, unsaved work after a crash, or another path, and open it."""
        recent, left = self.context.settings.recent, self.recovery.left
        options = [display_name(shortened(path)) for path in recent]
        if left:
            options.insert(0, f"unsaved work of {origin(left)}: {contents(left)}")

        def chosen(index: int) -> None:
            if left and index == 0:
                self.context.start(self._open_if_allowed, self.recovery.open, left)
            elif index < len(options):
                self.open(recent[index - bool(left)])
            else:
                title = "Open a project, a bundle, or classes in a folder, zip or CSV"
                self.context.pick(title, lambda paths: self.open(paths[0]))

        if options:
            self.context.ask(Choose("Open", [*options, "another…"]), chosen)
        else:
            chosen(0)

    def action_new_project(self) -> None:
        self.context.start(self._new_project)

    async def _new_project(self) -> None:
        if await self.may_forget():
            await self.controller.open_folder(None, {})
            self.context.say("new project: a adds photos, A creates a class")

    async def open_bundle(self, path: str) -> None:
        """Unpack a bundle into a chosen folder and open its project."""
        hint = "name of a new folder   enter: done   esc: back"
        dialog = AskText(f"Unpack {display_name(name_of(path), 30)} into", path[: -len(".zip")], hint)
        folder = await self.context.answer(dialog)
        if folder is not None and self.context.is_named(folder):
            await self.open_project(await self.controller.engine.call(UnpackBundle(path, absolute(folder))))

    def action_relocate(self) -> None:
        if not self.controller.missing:
            self.context.start(self._look_again)
            return
        title = f"Choose a folder to search for {count_of(len(self.controller.missing), 'missing photo')}"
        self.context.pick(title, lambda paths: self.context.start(self._relocate, paths[0]))

    async def _look_again(self) -> None:
        await self.controller.find_missing()
        if self.controller.missing:
            self.action_relocate()
        else:
            self.context.say("no photos are missing")

    async def _relocate(self, folder: str) -> None:
        relocated, wanted = await relocate(self.controller, absolute(folder))
        undo = "   u: undo" if relocated else ""
        self.context.say(f"{relocated} of {count_of(wanted, 'missing photo')} found{undo}")

    @property
    def at_stake(self) -> str:
        """Description of the unsaved work; empty if everything is saved."""
        if self.controller.adding:
            return "Photos are still being added and would be lost"
        if self.controller.moving.locked():
            return "Photos are still being moved; the others would stay in place"
        return "" if self.controller.session.is_saved else "There are unsaved changes"

    async def may_forget(self) -> bool:
        options = ["continue and discard the changes", "cancel"]
        return not self.at_stake or await self.context.chosen(self.at_stake, options) == 0

    def open(self, path: str) -> None:
        """Open a place, unless unsaved work is to be kept."""
        self.context.start(self._open_if_allowed, self.open_place, path)

    async def _open_if_allowed(self, open_it: Callable[[Any], Awaitable[None]], what: object) -> None:
        if await self.may_forget():
            await open_it(what)

    async def open_place(self, path: str) -> None:
        """Open a project, bundle or folder; anything else, or a cancelled dialogue, leaves the current one open."""
        path = absolute(path)  # now, because the next start may be in a different folder
        contents = await self.context.classes_in(path)
        if contents["kind"] == "project":
            await self.open_project(path)
        elif contents["kind"] == "bundle":
            await self.open_bundle(path)
        elif contents["kind"] in ("classes", "folder"):
            classes = contents["classes"] or {name_of(path): contents["files"]}
            self.context.remember(path)
            try:
                outcome = await self.controller.open_folder(path, classes)
            except asyncio.CancelledError:  # photos that arrived stay and count
                self.context.start(self.controller.sync, group="edit")
                raise
            self.controller.report_skipped(path, contents)  # again, because they belong to what is open now
            self.context.list_duplicates(outcome)
        else:
            self.context.say(contents.get("reason", f"{path}: is a photo; choose its folder"), severity="warning")

    async def open_project(self, path: str) -> None:
        """Open a project file, asking how if another app has it open."""
        copy = False
        if (holder := await self.controller.holder(path)) is not None:
            options = [
                "open a copy; saving asks for a name",
                "take it over; the other app can no longer save it",
                "cancel",
            ]
            name = display_name(path.rpartition("/")[2], 24)
            chosen = await self.context.chosen(f"{name} is open in another frn-tui (process {holder})", options)
            if chosen not in (0, 1):
                return
            copy = chosen == 0
        await self.controller.load(path, copy=copy)
        self.context.remember(path)
        self.context.say(f"opened a copy of {path}" if copy else f"opened {path}")


def origin(found: Recovered) -> str:
    """Describe the origin of the work, and when it was saved."""
    place = found.project or found.place
    named = display_name(shortened(place), 40) if place else "an unnamed project"
    when = datetime.fromtimestamp(found.time).astimezone()
    day = "" if when.date() == datetime.now().astimezone().date() else f"{when:%Y-%m-%d} "
    return f"{named}, {day}{when:%H:%M}"


def contents(found: Recovered) -> str:
    """Describe what would be recovered."""
    classes = found.state.classes
    names = ", ".join(display_name(entry.name, 16) for entry in classes[:3])
    rest = ", …" if len(classes) > 3 else ""
    photos = count_of(sum(len(entry.supports) for entry in classes), "photo")
    adding = sum(map(len, found.adding.values()))
    more = f", {adding:,} still being added" if adding else ""
    said = count_of(len(classes), "class")
    return f"{said} ({names}{rest}), {photos}{more}" if classes else f"{said}{more}"


LAST_MOMENTS = 2.0  # seconds for the last journal; the process ends a second later at the latest


class Recovery:
    """The app's own journal, and those left by other apps."""

    def __init__(self, context: Context) -> None:
        self.controller, self.context = context.controller, context
        self._written: tuple[object, ...] = (self.controller.session.state, True, [])  # state in the last journal
        self.left: Recovered | None = None
        self._writing: Worker[None] | None = None
        self._failed = False

    def keep(self) -> None:
        """Write the journal if anything has changed."""
        controller = self.controller
        now = (controller.session.state, controller.session.is_saved, list(controller.adding))
        busy = self._writing is not None and self._writing.is_running
        if now != self._written and not busy and controller.model is not None:
            write = partial(self._write, now)  # create the awaitable only when it runs
            self._writing = self.context.screen.run_worker(write, group="journal", exit_on_error=False)

    async def _write(self, now: tuple[object, ...]) -> None:
        try:
            await self.controller.journal()
        except EngineError as error:  # retried, but reported only once
            if not self._failed:
                self.context.say(str(error), severity="error")
            self._failed = True
        else:
            self._written, self._failed = now, False

    async def keep_at_the_end(self) -> None:
        """Write the journal if the app must exit immediately, or remove it if everything is saved."""
        if self.controller.model is None and self.controller.session.is_saved:
            return
        with contextlib.suppress(EngineError, TimeoutError):
            async with asyncio.timeout(LAST_MOMENTS):
                while self.controller.model is None:  # it is named in the journal
                    await asyncio.sleep(0.02)
                await self.controller.journal()

    async def discard_own(self) -> None:
        if self.controller.model is not None:
            with contextlib.suppress(EngineError):
                await self.controller.engine.call(DiscardJournal(None))
                await self.controller.engine.call(LockProject(None))

    async def find(self) -> Recovered | None:
        self.left = await self.controller.engine.call(Recover())
        return self.left

    async def offer(self, found: Recovered | None) -> bool:
        """Offer to continue unsaved work of earlier apps, one at a time; return whether one was opened."""
        while found:
            options = [f"recover {contents(found)}", "discard", "decide later (ctrl+o)"]
            chosen = await self.context.chosen(f"Unsaved work of {origin(found)}", options)
            if chosen == 0:
                await self.open(found)
            if chosen != 1:
                return chosen == 0
            found = await self._discard(found)
        return False

    async def _discard(self, found: Recovered) -> Recovered | None:
        await self.controller.engine.call(DiscardJournal(found.journal))
        return await self.find()

    def mention(self, found: Recovered) -> None:
        self.context.say(f"unsaved work of {origin(found)}: {contents(found)}; ctrl+o opens it", severity="warning")

    async def open(self, found: Recovered) -> None:
        """Open unsaved work, as unsaved and with nothing to undo."""
        controller, engine = self.controller, self.controller.engine
        if found.model != controller.model_name:
            try:
                await controller.open_model(found.model)
            except EngineError as error:
                self.context.say(f"{error}; using {controller.model_name} instead", severity="warning")
        controller.begin(found.state, is_saved=False)
        controller.place, project = found.place, found.project
        if project is not None and await controller.holder(project) is None:
            await engine.call(LockProject(project))
            controller.project = controller.origin = project
        controller.listener()
        with controller.begun(found.adding):
            await controller.journal()  # now it belongs to this app and is not offered again
            if other := await self._discard(found):
                self.mention(other)
            await controller.find_missing()
            await controller.sync()
            if found.adding:
                await controller.add_classes(found.adding)
