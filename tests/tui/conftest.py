"""Run widgets and the app in tests, and read the screen. Only this file uses private parts of Textual."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any
from weakref import WeakSet

import frn_tui.app
import pytest
from frn_tui.app import FrnApp
from frn_tui.dialogs.dialogs import Choose, matching
from frn_tui.terminal.marks import WAITING
from frn_tui.widgets.gallery import Gallery
from frn_tui.widgets.preview import Preview
from rich.style import Style
from textual import markup
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App, ComposeResult
from textual.css.stylesheet import Stylesheet
from textual.geometry import Size
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, OptionList

from tests.tui.fake_engine import FakeEngine


@pytest.fixture(scope="session", autouse=True)
def quick_app() -> Iterator[None]:
    """Wait for shorter times, and draw the screen only if a test looks at it: both took most of the time.

    An app that a pilot drives has no terminal, so Textual discards what it draws.
    """

    def skip(compositor: Compositor, **_: object) -> None:
        compositor._dirty_regions.clear()

    parse, parsed = Stylesheet._parse_rules, dict[object, Any]()

    def parse_once(sheet: Stylesheet, css: str, **source: Any) -> Any:
        """Parse each style sheet once, not once for each app."""
        key = (css, *source.values(), *sheet._variables.items())
        parsed[key] = rules = parsed.get(key) or parse(sheet, css, **source)
        return rules

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        patch.setattr("textual.markup._to_content", lru_cache(10_000)(markup._to_content))
        patch.setattr(Compositor, "render_update", skip)
        patch.setattr("textual._wait.SLEEP_GRANULARITY", 0.004)
        patch.setattr("textual._wait.SLEEP_IDLE", 0.0004)
        patch.setattr("textual.screen.UPDATE_PERIOD", 0.002)
        yield


@pytest.fixture(autouse=True)
def resized(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Textual's pilot continues before the new size is laid out or the widgets know it."""
    resize = Pilot.resize_terminal

    async def patiently(pilot: Pilot[None], width: int, height: int) -> None:
        await resize(pilot, width, height)
        for _ in range(500):
            if pilot.app.screen._compositor.size == Size(width, height):
                break
            await pilot.pause(0.02)
        await pilot._wait_for_screen()
        await pilot.pause()

    monkeypatch.setattr(Pilot, "resize_terminal", patiently)


@pytest.fixture
def fake_engine() -> FakeEngine:
    """An engine without a process."""
    return FakeEngine()


@pytest.fixture
def private_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the user's settings and journals from all tests."""
    monkeypatch.setenv("FRN_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


class Driver:
    """Drives the app, and waits for it instead of sleeping."""

    def __init__(self, app: FrnApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def until(self, reached: Callable[[], object], seconds: float = 20) -> None:
        end, delay = time.monotonic() + seconds, 0.002
        while time.monotonic() < end:
            await self.pilot.pause(delay)
            if reached():
                return
            delay = min(2 * delay, 0.02)
        raise AssertionError("it did not happen in time")

    async def idle(self) -> None:
        """Wait until no work is in progress, and all pictures on the screen have been requested and have arrived."""
        await self.pilot.pause()
        await self.until(
            lambda: (
                not any(worker.is_running for worker in self.app.workspace.workers)
                and not any(gallery.asking for gallery in self.app.screen.query(Gallery))
                and not any(preview.wanting for preview in self.app.screen.query(Preview))
                and not self.app._wanted
            )
        )
        await self.pilot.pause()

    async def keys(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.idle()

    async def fill(self, text: str) -> None:
        """Put a text into the dialog, or go to the option that matches it in one that cannot be filtered."""
        screen = self.app.screen
        if isinstance(screen, Choose):
            await self.until(lambda: screen.begun)
        if isinstance(screen, Choose) and not screen.query(Input):
            screen.query_one(OptionList).highlighted = matching(screen.options, text)[0]
        else:
            field = screen.query_one(Input)
            field.focus()
            field.value = text
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Fill the dialog and accept it."""
        await self.fill(text)
        await self.keys("enter")

    @property
    def said(self) -> str:
        """Return the message in the job line."""
        return self.app.context.jobs.shown_message

    @property
    def notes(self) -> list[str]:
        """Return the notifications on the screen."""
        return [note.message for note in self.app._notifications]

    @property
    def counts(self) -> dict[str, int]:
        return {entry.name: len(entry.supports) for entry in self.app.controller.session.state.classes}


@pytest.fixture
def driver_class() -> type[Driver]:
    """Return the class, for tests that create their own app."""
    return Driver


@asynccontextmanager
async def opened(
    engine: FakeEngine,
    *,
    place: str = "/photos",
    size: tuple[int, int] = (140, 40),
    images: Any = "half",
    app: Callable[..., FrnApp] = FrnApp,
) -> AsyncIterator[Driver]:
    shown = app(place, images=images, engine=engine)
    async with shown.run_test(size=size, tooltips=False) as pilot:
        driver = Driver(shown, pilot)
        await driver.until(lambda: shown.controller.model is not None)
        await driver.pilot.pause()
        if not engine.left:
            await driver.idle()
        yield driver
        if shown.is_running and shown not in DRAWN:
            drawn(shown)  # without an error


@pytest.fixture
def driver(
    request: pytest.FixtureRequest, fake_engine: FakeEngine, private_state: Path
) -> AbstractAsyncContextManager[Driver]:
    """Drive the app with an engine without a process, opened on `/photos`; the mark `app` changes this."""
    mark = request.node.get_closest_marker("app")
    return opened(fake_engine, **(mark.kwargs if mark else {}))


class Drive(AsyncExitStack):
    """Opens the app as for a `driver`, after a preparation, until the next one is opened or the test ends."""

    def __init__(self, engine: FakeEngine) -> None:
        super().__init__()
        self.engine = engine

    async def __call__(self, **options: Any) -> Driver:
        await self.aclose()
        return await self.enter_async_context(opened(self.engine, **options))


@pytest.fixture
def drive(fake_engine: FakeEngine, private_state: Path) -> Drive:
    return Drive(fake_engine)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test; fixtures that are asynchronous contexts, such as `driver`, are entered around it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for name, value in fixtures.items():
                if isinstance(value, AbstractAsyncContextManager):
                    fixtures[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**fixtures)

    asyncio.run(run())
    return True


class Stage(App[None]):
    CSS_PATH = Path(frn_tui.app.__file__).with_name(FrnApp.CSS_PATH)

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


class Play(AsyncExitStack):
    """Opens an app with one widget, until the next one is opened or the test ends.

    Returns the pilot and a list of the messages from the program's own widgets.
    """

    async def __call__(
        self, widget: Widget, *, size: tuple[int, int] = (80, 24), theme: str | None = None
    ) -> tuple[Pilot[None], list[Message]]:
        told: list[Message] = []

        def hear(message: Message) -> None:
            if type(message).__module__.startswith("frn_tui") and not any(message is other for other in told):
                told.append(message)

        await self.aclose()
        app = Stage(widget)
        if theme is not None:
            app.theme = theme
        pilot = await self.enter_async_context(app.run_test(size=size, message_hook=hear))
        await pilot.pause()
        return pilot, told


@pytest.fixture
def play() -> Play:
    return Play()


DRAWN: WeakSet[App[Any]] = WeakSet()


def drawn(app: App[Any]) -> list[Strip]:
    """Draw the screen, over those behind a dialog."""
    DRAWN.add(app)
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()


@pytest.fixture
def lines() -> Callable[[App[Any]], list[str]]:
    """Return the text on the screen, line by line; places that wait for an image are blank."""
    return lambda app: [strip.text.replace(WAITING, " ") for strip in drawn(app)]


@pytest.fixture
def sent() -> Callable[[App[Any]], str]:
    """Return the bytes that draw the screen in a terminal."""

    def sent(app: App[Any]) -> str:
        parts = []
        for strip in drawn(app):
            for text, style, _ in strip:
                if style is not None:
                    style._ansi = None  # drop styles from other apps, because styles are shared
                    text = style.render(text, color_system=app.console._color_system)
                parts.append(text)
            parts.append("\n")
        return "".join(parts)

    return sent


@pytest.fixture
def styles() -> Callable[[App[Any]], list[list[Style]]]:
    """Return the style of each cell on the screen."""

    def styles(app: App[Any]) -> list[list[Style]]:
        return [
            [segment.style or Style() for segment in strip for _ in range(segment.cell_length)] for strip in drawn(app)
        ]

    return styles


@pytest.fixture
def digest(styles: Callable[[App[Any]], list[list[Style]]]) -> Callable[[App[Any]], list[str]]:
    """Return the styles on the screen as text, line by line: runs of cells with the same style."""

    def digest(app: App[Any]) -> list[str]:
        return [
            ", ".join(f"{len(list(run))} {str(style) or 'plain'}" for style, run in groupby(line))
            for line in styles(app)
        ]

    return digest
