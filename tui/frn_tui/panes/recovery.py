"""Recovery of unsaved work, which the engine stores, after a crash or a lost terminal."""

import asyncio
import contextlib
from functools import partial

from textual.worker import Worker

from frn_tui.client.file_requests import DiscardJournal, LockProject, Recover, Recovered
from frn_tui.client.protocol import EngineError
from frn_tui.document.controller import Controller
from frn_tui.document.recovered import contents, origin
from frn_tui.panes.context import Context
from frn_tui.terminal.paths import absolute


class Recovery:
    """The app's own journal, and those left by other apps."""

    def __init__(self, controller: Controller, context: Context) -> None:
        self.controller, self.context = controller, context
        self._written: tuple[object, ...] = (controller.session.state, True, [])
        """State in the last journal."""
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
        """Write the journal if the app must exit at once, or remove it if everything is saved."""
        if self.controller.model is not None:
            with contextlib.suppress(EngineError, TimeoutError):
                async with asyncio.timeout(1):
                    await self.controller.journal()

    async def discard_own(self) -> None:
        if self.controller.model is not None:
            with contextlib.suppress(EngineError):
                await self.controller.engine.call(DiscardJournal(None))
                await self.controller.engine.call(LockProject(None))

    async def find(self) -> Recovered | None:
        """Return the latest unsaved work of an app that is no longer running, if any."""
        self.context.left = await self.controller.engine.call(Recover())
        return self.context.left

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
        """Discard the unsaved work of one app; return that of another, if any."""
        await self.controller.engine.call(DiscardJournal(found.journal))
        return await self.find()

    def mention(self, found: Recovered) -> None:
        """Mention the unsaved work if something else was opened."""
        self.context.say(f"unsaved work of {origin(found)}: {contents(found)}; ctrl+o opens it", severity="warning")

    def is_of(self, found: Recovered, place: str) -> bool:
        """Return whether unsaved work belongs to a project or folder."""
        return absolute(place) in (found.project, found.place)

    async def open(self, found: Recovered) -> None:
        """Open unsaved work, as unsaved and with nothing to undo."""
        controller, engine = self.controller, self.controller.engine
        if found.model != controller.model_name:
            await controller.open_model(found.model)
        controller.begin(found.state, is_saved=False)
        controller.place, project = found.place, found.project
        if project is not None and await controller.holder(project) is None:
            await engine.call(LockProject(project))
            controller.project = project
        controller.listener()
        with controller.begun(found.adding):
            await controller.journal()  # now it belongs to this app and is not offered again
            if other := await self._discard(found):
                self.mention(other)
            await controller.find_missing()
            await controller.sync()
            if found.adding:
                await controller.add_classes(found.adding)
