"""Random keys, pastes, clicks and sizes with an engine that is slow and sometimes fails.

`FRN_FUZZ=20x2000` runs 20 seeds of 2,000 events.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from frn_tui.screens.workspace import Workspace
from textual import events
from textual.binding import Binding
from textual.errors import NoWidget

from tests.tui.conftest import Driver
from tests.tui.fake_engine import FakeEngine

SEEDS, EVENTS = map(int, os.environ.get("FRN_FUZZ", "1x60").split("x"))
KEYS = [
    *(key for binding in Workspace.BINDINGS if isinstance(binding, Binding) for key in binding.key.split(",")),
    *("enter", "space", "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "backspace", "f2"),
    *("h", "k", "l", "ctrl+t", "ctrl+b", "f2", "y", "N", "S", "R", "B", "w", "c", "l", "l"),
    *("v", "ctrl+a", "ctrl+p", "j", "q", "o", "tab", "enter", "enter", "escape", "escape", "down", "ctrl+q"),
]
NAMED = ["slash", "comma", "full_stop", "space", "minus", "plus", "question_mark"]
CHARACTERS = dict(zip(NAMED, "/,. -+?", strict=True))
PASTES = [
    *("/photos", "/photos/jay", "/photos/owl/owl-1.jpg /photos/wren/bad-1.jpg", "'/queries/swan-1.jpg'"),
    *("/home/birds.frn.json", "/home/birds.zip", "/photos/wren /photos/owl", "file:///queries/jay-10.jpg"),
    *("/nowhere \x1b[31m\u202e\udcff.jpg", "\x00", "", "\n\n", "x" * 5000),
]
SIZES = [(80, 24), (140, 40), (40, 12), (20, 5), (1, 1), (100, 30)]


async def do_something(driver: Driver, chance: random.Random) -> None:
    app, pilot = driver.app, driver.pilot
    kind = chance.random()
    if kind < 0.8:
        for _ in range(chance.randint(1, 3)):  # events arrive faster than they are handled
            key = chance.choice(KEYS)
            app.post_message(events.Key(key, CHARACTERS.get(key, key if len(key) == 1 else None)))
    elif kind < 0.88:
        app.post_message(events.Paste(chance.choice(PASTES)))
    elif kind < 0.92:
        await pilot.resize_terminal(*chance.choice(SIZES))
    else:
        place = (chance.randrange(app.size.width), chance.randrange(app.size.height))
        mouse: list[Callable[..., Awaitable[bool]]] = [pilot.click, pilot.mouse_down, pilot.mouse_up, pilot.hover]
        with suppress(NoWidget):  # the screen is not laid out yet
            await chance.choice(mouse)(offset=place)
    if chance.random() < 0.5:
        await pilot.pause()


def check(driver: Driver) -> None:
    app, session = driver.app, driver.app.controller.session
    assert app.is_running
    assert app.workspace in app.screen_stack
    state = session.state
    names = [entry.name for entry in state.classes]
    ids = [entry.id for entry in state.classes]
    keys = [support.key for entry in state.classes for support in entry.supports]
    assert len(set(names)) == len(names)
    assert len(set(ids)) == len(ids)
    assert all(number < state.next_id for number in ids)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.app(size=(100, 30))
async def test_random_events_do_not_break_the_app(
    driver: Driver, seed: int, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(driver.app, "exit", lambda *_, **__: None)
    monkeypatch.setattr("textual.pilot.wait_for_idle", asyncio.sleep)  # users do not wait either
    fake_engine.chance = random.Random(seed)
    for _ in range(EVENTS):
        await do_something(driver, chance)
        check(driver)
    fake_engine.chance = None

    quiet = 0

    def is_quiet() -> bool:
        """Close the open dialog; return whether nothing has been open for a while, as late keys open more."""
        nonlocal quiet
        quiet += 1
        if driver.app.screen is not driver.app.workspace:
            driver.app.screen.dismiss(None)
            quiet = 0
        driver.app.workspace.query_pane.watched = None
        driver.app.workspace.workers.cancel_group(driver.app.workspace, "watch")
        if any(worker.is_running for worker in driver.app.workspace.workers):
            quiet = 0
        return quiet > 25

    await driver.until(is_quiet)
    for _ in range(10 * EVENTS):
        if not driver.app.controller.session.can_undo:
            break
        driver.app.controller.session.undo()
        await driver.app.controller.sync()
        check(driver)
    assert not driver.app.controller.session.can_undo
    opened = driver.app.controller.project or driver.app.controller.place
    if opened is None:
        assert not driver.counts
    elif opened == "/photos":
        assert driver.counts == {"jay": 6, "owl": 4, "wren": 5}
