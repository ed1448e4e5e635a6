"""The Textual app: it starts the engine after the first paint, journals unsaved work, and ends cleanly."""

import asyncio
import gc
import os
from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Literal

from textual import events, on, work
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.color import BLACK, WHITE, Color
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import ThemeProvider

from frn.models.zoo import DEFAULT_MODEL, assets_folder, named_extractors
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import Recovered
from frn_tui.client.protocol import MIRROR, SUFFIXES, VIEWS, RenderPreview, split_suffix
from frn_tui.dialogs.dialogs import Choose
from frn_tui.document.controller import Controller
from frn_tui.document.photo_files import offer_left, settle
from frn_tui.screens.workspace import Workspace
from frn_tui.settings.keys import BOUND, shown_key
from frn_tui.settings.settings import Settings, state_folder
from frn_tui.terminal.modes import PIXELS, Mode, default_mode, palette_of
from frn_tui.terminal.paths import absolute
from frn_tui.terminal.pixels import Graphics
from frn_tui.terminal.terminal import MORE_COLOURS, QUESTIONS, TRUE_COLOUR, Answered, beyond_tmux, cell_size, pixels_of
from frn_tui.terminal.termination import end_without_terminal, handle_signals
from frn_tui.terminal.wire.cell_app import CellApp
from frn_tui.terminal.wire.driver import with_pixels
from frn_tui.terminal.wire.input_queue import InputQueue
from frn_tui.widgets.lists import Palette
from frn_tui.widgets.preview import PicturesWanted

BORDER_CONTRAST, TEXT_CONTRAST = 3.3, 5.0
"""Minimum contrasts on the surface; on panels, which are a little lighter or darker, they are then 3 and 4.5."""
CHECK_INTERVAL = 2.0  # seconds between checks for unsaved work and for the terminal
FIRST_SAMPLE = "nautilus 7.jpg"  # sample shown first: the default model labels it correctly
AUGMENTATIONS = (
    ("Mirror images", "also classify mirror images: more accurate, slower", MIRROR),
    ("Crops of photos", "classify four crops, for small or off-centre subjects: much slower", VIEWS),
    ("Second looks", "classify four crops of photos whose answer is unsure, if the examples gain", SUFFIXES["auto"]),
)
UNLISTED = ("class-", "cancel", "next-pane", "previous-pane")
"""Prefixes of names that the palette omits, because they have no effect there."""


class FrnApp(CellApp):
    """App to enroll few-shot classes, classify photos, explain and correct the answers, and save."""

    TITLE = "frn-tui"
    CSS_PATH = "app.tcss"
    ALLOW_SELECT = False
    """Off, because Textual's mouse selection fails on widgets being removed; a terminal's own (shift) works."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Quit", show=False, priority=True),
        Binding("q", "help_quit", "Quit", show=False),
    ]

    def __init__(
        self,
        place: str | None = None,
        *,
        model: str | None = None,
        images: Literal["auto"] | Mode = "auto",
        tta: str = "",
        engine: EngineClient | None = None,
    ) -> None:
        """Open a place, or the shipped samples; slow work starts after the first paint."""
        super().__init__()
        self.place, self.model, self.images, self.tta = place, model, images, tta
        self.engine = engine or EngineClient(log=state_folder() / "engine.log")
        self.controller = Controller(self.engine)
        settings = Settings.read()
        # Without colours Textual has already chosen how to paint, and an ansi theme would be unreadable.
        if settings.theme in self.available_themes and not (self.no_color and "ansi" in settings.theme):
            self.theme = settings.theme
        self.graphics = Graphics(self._tell_terminal)
        self.graphics.palette = palette_of(None if self.no_color else self.console.color_system)
        if images in PIXELS:
            self.graphics.mode = images
        elif self.graphics.in_page:
            self.graphics.mode = "kitty"
        self.graphics.cell = cell_size() or self.graphics.cell
        self.graphics.plain = default_mode(os.environ, self.console.color_system)
        self.workspace = Workspace(self.controller, settings, self.graphics.mode_of(images))
        self.context = self.workspace.context
        self.recovery = self.workspace.project_bar.recovery
        self._terminal = ""  # name that the terminal reports
        self._colours_asked = False
        self._leaving: Choose | None = None
        self._input = InputQueue(self, super().on_event)
        self._wanted: list[tuple[PicturesWanted, RenderPreview]] = []  # images that widgets still need

    def get_default_screen(self) -> Workspace:
        """Return the workspace itself: another screen below it would be styled and painted for nothing."""
        return self.workspace

    def on_mount(self) -> None:
        self._restore_signals = handle_signals(self._end_by)
        self.call_after_refresh(self._begin)

    async def on_event(self, event: events.Event) -> None:
        """Pass keys through a queue."""
        if isinstance(event, events.InputEvent | events.Paste) and not self.is_running:
            return  # at the end the screens are removed, and Textual fails
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self._input.put(event)
        else:
            await super().on_event(event)

    @work
    async def _end_by(self, number: int) -> None:
        await self.recovery.keep_at_the_end()
        self.exit(return_code=128 + number)

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's colours, with border and cursor colours adjusted to be readable."""
        colours = super().get_css_variables()
        if "ansi" in self.theme:
            return colours
        ground = Color.parse(colours["surface"])
        end = max((BLACK, WHITE), key=partial(contrast, ground))
        for name, least in (("foreground", TEXT_CONTRAST), ("accent", BORDER_CONTRAST), ("primary", BORDER_CONTRAST)):
            shades = (Color.parse(colours[name]).blend(end, step / 20) for step in range(21))
            colours[name] = next(shade for shade in shades if contrast(shade, ground) >= least).hex
        for name in ("block-cursor", "block-cursor-blurred"):
            behind = ground + Color.parse(colours[f"{name}-background"])
            colours[f"{name}-foreground"] = max((BLACK, WHITE), key=partial(contrast, behind)).hex
        return colours

    def get_driver_class(self) -> type[Driver]:
        return with_pixels(super().get_driver_class())

    def on_app_blur(self, event: events.AppBlur) -> None:
        """Ignore a loss of focus in a web page, which starts without focus; Textual would hide the keys."""
        if self.graphics.in_page:
            event.prevent_default()

    def _tell_terminal(self, data: str) -> None:
        if self._driver is not None:
            self._driver.write(data)

    def _ask_terminal(self) -> None:
        """Query the terminal's features, unless it has no colours or cannot answer."""
        if self.no_color or self.graphics.in_page or not os.isatty(0):
            return
        self._tell_terminal(QUESTIONS if self.console.color_system == "truecolor" else TRUE_COLOUR + QUESTIONS)

    @on(Answered)
    async def hear(self, answer: Answered) -> None:
        """Use pixel graphics if the terminal supports them and no other mode was chosen."""
        graphics = self.graphics
        if answer.has_true_colour:
            self.use_true_colour()
            graphics.palette = ""
            self.workspace.set_mode(self.context.mode)
        if answer.pong:
            self.hear_pong()
        if answer.name is not None:
            self._terminal = answer.name
        if answer.cell is not None and cell_size() is None:
            graphics.cell = answer.cell
        if answer.colours is not None:
            graphics.colours = min(max(answer.colours, 2), 256)
        if answer.can is None:
            return
        name = await beyond_tmux(os.environ) if graphics.in_tmux else self._terminal
        mode = graphics.mode or pixels_of(name, answer.can, in_tmux=graphics.in_tmux)
        if mode == "sixel" and not self._colours_asked:
            self._colours_asked = True
            self._tell_terminal(MORE_COLOURS + "\x1b[c")
        elif mode is not None:
            graphics.mode = mode
            if self.images in ("auto", *PIXELS):
                self.workspace.set_mode(mode)

    def on_resize(self, event: events.Resize) -> None:
        """Update the cell size, which changes with the font.

        If the size is the same, repaint everything: a terminal that was briefly smaller has lost content, but Textual
        paints only changes.
        """
        if self.screen_stack and event.size == self.screen.size:
            self.repaint()
        if self.graphics.mode is not None:
            self.graphics.cell = cell_size() or self.graphics.cell

    def _begin(self) -> None:
        if not self.is_headless:  # a headless host manages its own garbage collector
            self._ask_terminal()
            gc.freeze()  # what exists now stays
            gc.enable()
            if os.isatty(0) or self.graphics.in_page:
                self.set_interval(CHECK_INTERVAL, end_without_terminal)
        self.context.start(self._start)
        self.set_interval(CHECK_INTERVAL, self.recovery.keep)
        if self.context.settings.trouble:
            self.context.say(self.context.settings.trouble, severity="warning")

    async def _start(self) -> None:
        self.engine.on_restart = self._tell_of_restart
        await self.engine.start()
        recovered = await self.recovery.find()
        opening = asyncio.ensure_future(self._open_first_model())
        try:  # folders are listed meanwhile
            await self._open_first_classes(recovered)
        finally:
            await opening
        if finished := await settle(self.controller):
            self.context.say(finished, severity="warning")
        if said := await offer_left(self.controller, self.context.chosen):
            self.context.say(said)

    async def _open_first_classes(self, left: Recovered | None) -> None:
        if self.place is not None:
            await self.workspace.project_bar.open_place(self.place)
            if left and absolute(self.place) in (left.project, left.place):
                await self.recovery.offer(left)
            elif left:
                self.recovery.mention(left)
            return
        if left and await self.recovery.offer(left):
            return
        samples = assets_folder() / "samples"
        self.workspace.photos_pane.open_with_piles(True)
        await self.controller.open_folder(None, (await self.controller.scan(str(samples / "shells")))["classes"])
        if not self.controller.shows_samples:  # the user's own classes have replaced them meanwhile
            return
        queries = (await self.controller.scan(str(samples / "queries")))["files"]
        await self.workspace.query_pane.ask_now(sorted(queries, key=lambda path: not path.endswith(FIRST_SAMPLE)))
        self.context.say("samples are open:  . next answer   a your own folders   p your own photo   ? all keys")

    def _tell_of_restart(self) -> None:
        log = f"; see {self.engine.log}" if self.engine.log else ""
        self.context.say(f"the engine stopped and was restarted{log}", severity="warning")

    async def _open_first_model(self) -> None:
        await self.controller.open_model((self.model or DEFAULT_MODEL) + SUFFIXES[self.tta or "none"])

    @on(PicturesWanted)
    def want_pictures(self, event: PicturesWanted) -> None:
        """Fetch the newest requests first, because fast scrolling needs what is on screen now."""
        others = [(other, request) for other, request in self._wanted if other.widget is not event.widget]
        self._wanted = [*((event, request) for request in event.requests), *others]
        if not any(worker.group == "pictures" and worker.is_running for worker in self.workers):
            self._fetch()

    @work(group="pictures", exit_on_error=False)
    async def _fetch(self) -> None:
        while self._wanted:
            event, request = self._wanted.pop(0)
            if event.widget.is_attached:
                event.provide(request, await self.engine.render(request))

    def action_help_quit(self) -> None:
        """Show how to quit: people press ctrl+c or q for it, but nobody should quit by accident."""
        self.notify("press ctrl+q to quit", timeout=3)

    async def action_leave(self) -> None:
        """Quit, after confirmation if unsaved work would be lost."""
        if self._leaving in self.screen_stack:
            return
        at_stake = self.workspace.project_bar.at_stake
        if not at_stake or not (self.controller.adding or self.controller.session.state.classes):
            await self._end()
            return

        def chosen(option: int | None) -> None:
            if option == 0:
                self.workspace.project_bar.action_save(then=self._end)
            elif option == 1:
                self.context.start(self._end)

        self._leaving = Choose(at_stake, ["save and quit", "quit without saving", "cancel"])
        self.push_screen(self._leaving, chosen)

    async def _end(self) -> None:
        await self.recovery.discard_own()
        self.exit()

    async def on_unmount(self) -> None:
        self._restore_signals()
        tile_width = self.workspace.photos_pane.gallery.tile_width
        self.context.change(theme=self.theme, tile_width=tile_width, recent=self.context.recent)
        self.context.settings.write()
        await self.engine.close()

    def action_command_palette(self) -> None:
        """Show the commands. The palette has no id, since one still closing would conflict with the next."""
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def search_themes(self) -> None:
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from (command for command in super().get_system_commands(screen) if command.title != "Keys")
        if screen is not self.workspace:
            return
        for name, key in BOUND.items():
            if not name.startswith(UNLISTED):
                run = partial(self.workspace.action_do, name)
                what = f"key {shown_key(name)}: {key.meaning}"
                yield SystemCommand(name.replace("-", " ").capitalize(), what, run)
        yield SystemCommand("Model", "classify with another model", self._choose_model)
        plain, tta = split_suffix(self.controller.model_name)
        for title, what, suffix in AUGMENTATIONS:
            on = SUFFIXES[tta] == suffix
            state, name = ("off", plain) if on else ("on", plain + suffix)
            change = partial(self.context.start, self._change_model, name)
            yield SystemCommand(f"{title}: {state}", "classify each photo once" if on else what, change)

    def _choose_model(self) -> None:
        names = list(named_extractors())

        def chosen(index: int) -> None:
            now = self.controller.model_name
            name = names[index] + SUFFIXES[split_suffix(now)[1]]
            if name != now:
                self.context.start(self._change_model, name)

        self.context.ask(Choose("Model", names), chosen)

    async def _change_model(self, name: str) -> None:
        await self.controller.change_model(name)
        self.context.say(f"model {name}   u: undo")


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours as defined by WCAG, 1 to 21."""

    def luminance(colour: Color) -> float:
        parts = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized)
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)
