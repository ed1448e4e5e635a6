"""The app: starts the engine after the first paint, keeps a journal of what is unsaved, and ends cleanly."""

import asyncio
import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic
from typing import Any, ClassVar, Literal

from textual import events, work
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import ThemeProvider

from frn.inference.session import Session
from frn.zoo import DEFAULT_MODEL, assets_folder, named_extractors
from frn_tui import garbage
from frn_tui.client import EngineClient, EngineError
from frn_tui.documents import read_state
from frn_tui.keys import read_keymap
from frn_tui.paths import absolute
from frn_tui.screens.dialogs import Choose
from frn_tui.screens.workspace import Workspace, bindings
from frn_tui.settings import Settings
from frn_tui.text import display_name
from frn_tui.widgets.cells import Mode, default_mode
from frn_tui.widgets.options import Palette
from frn_tui.workbench import Workbench

JOURNAL = 2.0
"""Seconds between looks at whether something unsaved should be kept."""

LAST_WORDS = 3.0
"""Seconds that the app has to end once it was told to."""


class FrnApp(App[None]):
    """Build few-shot classes, ask, see why, correct, keep."""

    TITLE = "frn-tui"
    CSS_PATH = "app.tcss"
    ALLOW_SELECT = False
    """Textual's selecting by mouse fails where what is pressed is just going; a terminal's own (shift) does not."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "leave", "Quit", show=False, priority=True)]

    def __init__(
        self,
        place: str | None = None,
        *,
        model: str | None = None,
        images: Mode | Literal["auto"] = "auto",
        engine: EngineClient | None = None,
    ) -> None:
        """Prepare the app; nothing heavy happens before its first paint.

        Args:
            place: a folder or project to open; None opens the shipped samples.
            model: of the classes; None: the project's own, or the default.
            images: auto, half, quad, ascii or none.
            engine: a test's own.
        """
        super().__init__()
        self.place, self.model, self.images = place, model, images
        self.engine = engine or EngineClient()
        self.bench = Workbench(self.engine)
        self.settings = Settings.read()
        # Without colours Textual has chosen how it paints already, and a terminal's own palette would be unreadable.
        if self.settings.theme in self.available_themes and not (self.no_color and "ansi" in self.settings.theme):
            self.theme = self.settings.theme
        self.bench.first_threshold = self.settings.threshold
        self._journalled: tuple[object, ...] = (self.bench.session.state, True, [])
        self._cannot_journal = False
        self.troubles: list[str] = []
        """What is wrong with the settings file."""
        self._leaving: Choose | None = None
        self._touched = monotonic()
        self._signals: dict[int, Any] = {}
        """Who was told of them before."""

    def get_default_screen(self) -> Workspace:
        """The workspace itself: a screen below it would be styled and painted for nothing."""
        images = self.settings.images if self.images == "auto" else self.images
        self.workspace = Workspace(self.bench, self._mode(images))
        self.workspace.remember = self.remember
        self.workspace.recent = lambda: self.settings.recent
        return self.workspace

    def on_mount(self) -> None:
        self._heed_signals()
        self.workspace.own_keys, self.troubles = read_keymap(self.settings.keys, bindings())
        self.set_keymap(self.workspace.own_keys)
        if self.settings.trouble:
            self.troubles.insert(0, self.settings.trouble)
        self.call_after_refresh(self._begin)

    def _heed_signals(self) -> None:
        """Told to end, or without a terminal, the app keeps what is unsaved and restores what it can."""
        loop = asyncio.get_running_loop()

        def told(number: int, _: object) -> None:
            end = threading.Timer(LAST_WORDS, os._exit, [128 + number])  # writing to a terminal that is gone may block
            end.daemon = True
            end.start()
            loop.call_soon_threadsafe(lambda: self._end_by(number))

        for name in ("SIGTERM", "SIGHUP"):
            with contextlib.suppress(AttributeError, ValueError):  # not on every system, and only in the main thread
                number = getattr(signal, name)
                self._signals[number] = signal.signal(number, told)

    async def on_event(self, event: events.Event) -> None:
        """Note when a key or the mouse was last touched."""
        if isinstance(event, events.InputEvent):
            self._touched = monotonic()
        await super().on_event(event)

    def _mind_the_terminal(self) -> None:
        """End as at SIGHUP, which only reaches whom the terminal controls; reading from one that is gone never ends."""
        if terminal_is_gone(0):
            os.kill(os.getpid(), signal.SIGHUP)

    @work
    async def _end_by(self, number: int) -> None:
        if self.bench.model is not None and not self.bench.session.is_saved:
            with contextlib.suppress(EngineError, TimeoutError):
                async with asyncio.timeout(1):
                    await self.bench.journal()
        self.exit(return_code=128 + number)

    def _begin(self) -> None:
        if not self.is_headless:  # else the garbage is its host's
            garbage.begin()
            self.set_interval(garbage.PAUSE, self._tidy)
            if os.isatty(0):
                self.set_interval(JOURNAL, self._mind_the_terminal)
        self.workspace.start(self._start)
        self.set_interval(JOURNAL, self._journal)
        for trouble in self.troubles:
            self.workspace.say(trouble, severity="warning")

    def _tidy(self) -> None:
        is_working = any(worker.is_running for worker in self.workers)
        garbage.tidy(monotonic() - self._touched, is_working=is_working)

    async def _start(self) -> None:
        self.engine.on_restart = self._restarted
        self.engine.on_silence = lambda: self.workspace.say("the disk does not answer; esc cancels", severity="warning")
        await self.engine.start()
        await self._open_first_model()
        if await self._recover():
            return
        if self.place is not None:
            await self.workspace.open_place(self.place)
            return
        samples = assets_folder() / "samples"
        await self.workspace.open_place(str(samples / "moths"))
        self.bench.session.mark_saved()
        await self.workspace.ask_now([str(samples / "queries")])
        self.workspace.say("these are samples: a adds your photos, ? shows all keys")

    async def _open_first_model(self) -> None:
        if self.model is None and self.settings.model:
            try:
                await self.bench.open_model(self.settings.model)
            except EngineError as error:
                self.workspace.say(f"{error}; {DEFAULT_MODEL} is used", severity="warning")
            else:
                return
        await self.bench.open_model(self.model or DEFAULT_MODEL)

    async def _recover(self) -> bool:
        found = await self.engine.call("recover")
        if not found.get("state"):
            return False
        count = sum(len(entry["supports"]) for entry in found["state"]["classes"])
        named = f" of {display_name(found['project'].rpartition('/')[2], 30)}" if found.get("project") else ""
        title = f"There is unsaved work{named}: {len(found['state']['classes'])} classes, {count:,} photos"
        if begun := sum(map(len, found["adding"].values())):
            title += f", {begun} to be added"
        chosen = await self.push_screen_wait(Choose(title, ["go on with it", "forget it"]))
        if chosen is None:  # it will be asked again
            return False
        if chosen == 1:
            await self.engine.call("recover", discard=True)
            return False
        if found["model"] != self.bench.model_name:
            await self.bench.open_model(found["model"])
        self.bench.session = Session()
        self.bench.session.replace_state(read_state(found["state"]))
        project = found.get("project")
        if project is not None and await self.bench.holder(project) is None:
            await self.engine.call("lock", path=project)
            self.bench.project = project
        self.bench.listener()
        with self.bench.begun(found["adding"]):
            await self.bench.journal()  # now it is this app's, and not asked about again
            await self.engine.call("recover", discard=True)
            await self.bench.sync(self.workspace.progress)
            if found["adding"]:
                await self.bench.add_classes(found["adding"], self.workspace.progress)
        return True

    async def _restarted(self) -> None:
        self.workspace.say("the engine stopped and was started again", severity="warning")

    def remember(self, path: str) -> None:
        """Put a project or folder at the head of the recent ones."""
        self.settings = self.settings.opened(absolute(path))

    def _journal(self) -> None:
        now = (self.bench.session.state, self.bench.session.is_saved, list(self.bench.adding))
        busy = any(worker.group == "journal" and worker.is_running for worker in self.workers)
        if now == self._journalled or busy or self.bench.model is None:
            return
        self._keep(now)

    @work(group="journal", exit_on_error=False)
    async def _keep(self, now: tuple[object, ...]) -> None:
        try:
            await self.bench.journal()
        except EngineError as error:  # it is tried again, and told once
            if not self._cannot_journal:
                self.workspace.say(str(error), severity="error")
            self._cannot_journal = True
        else:
            self._journalled, self._cannot_journal = now, False

    async def action_leave(self) -> None:
        """Quit; ask first where something would be lost."""
        if self._leaving in self.screen_stack:
            return
        if self.bench.session.is_saved or not self.bench.session.state.classes:
            await self._end()
            return

        def chosen(option: int | None) -> None:
            if option == 0:
                self.workspace.save(then=self._end)
            elif option == 1:
                self.workspace.start(self._end)

        self._leaving = Choose("There are unsaved changes", ["save and quit", "quit without saving", "stay"])
        self.push_screen(self._leaving, chosen)

    async def _end(self) -> None:
        try:
            if self.bench.model is not None:
                await self.engine.call("recover", discard=True, own=True)
                await self.engine.call("lock", path=None)
        except EngineError:
            pass
        self.exit()

    async def on_unmount(self) -> None:
        for number, before in self._signals.items():
            signal.signal(number, before)
        settings = replace(self.settings, theme=self.theme)
        if self.workspace.mode_was_chosen:
            settings = replace(settings, images=self.workspace.mode)
        settings.write()
        await self.engine.close()

    def action_command_palette(self) -> None:
        """Show the commands. Without an id: one that is just closing would be in the way of the next."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def search_themes(self) -> None:
        """Show the themes."""
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action is in the palette."""
        yield from super().get_system_commands(screen)
        if screen is not self.workspace:
            return
        for binding in bindings():
            if binding.action.startswith(("number", "cancel", "pane")):
                continue
            key = self.get_key_display(replace(binding, key=self._keys_of(binding)[0]))
            yield SystemCommand(binding.description, f"key {key}", self._runner(binding.action))
        yield SystemCommand("Model", "classify by another model", self._choose_model)

    def _keys_of(self, binding: Binding) -> list[str]:
        return self.workspace.own_keys.get(str(binding.id), binding.key).split(",")

    def set_images(self, images: str) -> None:
        """Draw pictures in another way from now on."""
        self.settings = replace(self.settings, images=images)
        self.workspace.set_mode(self._mode(images))
        self.workspace.mode_was_chosen = False

    def _mode(self, images: str) -> Mode:
        return default_mode(os.environ, self.console.color_system) if images == "auto" else images  # type: ignore[return-value]

    def action_settings(self) -> None:
        """Show the settings."""
        if self.screen is self.workspace:
            from frn_tui.screens.settings_menu import change_settings  # here: few sessions change them

            self.workspace.start(change_settings, self, group="settings")

    def _runner(self, action: str) -> Callable[[], object]:
        async def run() -> None:
            await self.workspace.run_action(action)

        return run

    def _choose_model(self) -> None:
        names = list(named_extractors())

        def chosen(index: int | None) -> None:
            if index is not None and names[index] != self.bench.model_name:
                self.workspace.start(self._change_model, names[index])

        self.push_screen(Choose("Model", names), chosen)

    async def _change_model(self, name: str) -> None:
        await self.bench.open_model(name)
        await self.bench.sync(self.workspace.progress)


def terminal_is_gone(descriptor: int) -> bool:
    """Whether the other side of a terminal has been closed; never on systems that cannot tell."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(flags & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, flags in poll.poll(0))
