"""What each screen looks like, as text that is kept beside the tests; and that what it says of its keys is true.

`FRN_SNAPSHOTS=write pytest tests/tui/test_screens.py` writes the texts anew: read them before they are kept.
"""

import difflib
import os
import string
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from frn_tui.screens.dialogs import Page
from frn_tui.screens.help import KEYS
from frn_tui.screens.workspace import Workspace
from rich.style import Style
from textual.screen import Screen
from textual.widgets import Input

if TYPE_CHECKING:
    from tests.tui.conftest import Drive, Driver

SNAPSHOTS = Path(__file__).parent / "snapshots"
SIZES = [(80, 24), (140, 40)]
Snapshot = Callable[[Any, str], None]


def describe(lines: list[str], styles: list[list[Style]]) -> str:
    """The text, and below it how many cells in a row look how; each look has a letter."""
    letters: dict[str, str] = {}
    rows = []
    for line in styles:
        runs = [(len(list(run)), str(style)) for style, run in groupby(line)]
        for _, style in runs:
            letters.setdefault(style, (string.ascii_letters + string.digits + "?" * 500)[len(letters)])
        rows.append(" ".join(f"{count}{letters[style]}" for count, style in runs))
    looks = [f"{letter}  {style}" for style, letter in letters.items()]
    text = [f"|{line}|" for line in lines]
    return "\n".join([*text, "", *looks, "", *rows, ""])


@pytest.fixture
def snapshot(lines: Callable[[Any], list[str]], styles: Callable[[Any], list[list[Style]]]) -> Snapshot:
    """Compare the screen with what is kept of it."""

    def snapshot(app: Any, name: str) -> None:
        path = SNAPSHOTS / f"{name}.txt"
        seen = describe(lines(app), styles(app))
        if os.environ.get("FRN_SNAPSHOTS") == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(seen, encoding="utf-8")
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if seen != kept:
            difference = difflib.unified_diff(kept.splitlines(), seen.splitlines(), "kept", "seen", "", "", 1, "")
            pytest.fail(f"{name} looks different:\n" + "\n".join(difference), pytrace=False)

    return snapshot


Scene = Callable[["Driver"], Awaitable[None]]


async def ask(driver: "Driver") -> None:
    await driver.app.workspace.ask_now(["/queries"])
    driver.app.workspace.preview.focus()
    await driver.keys("full_stop")


async def workspace(driver: "Driver") -> None:
    await ask(driver)
    driver.app.workspace.jobs.say("")


async def unknown(driver: "Driver") -> None:
    await ask(driver)
    await driver.keys("full_stop", "full_stop", "full_stop", "t", "s")


async def photos(driver: "Driver") -> None:
    driver.app.workspace.class_list.focus()
    await driver.keys("tab", "space", "space", "f")


async def empty(driver: "Driver") -> None:
    driver.app.workspace.class_list.focus()
    await driver.keys("d", "d", "d")
    driver.app.workspace.jobs.say("")


async def picker(driver: "Driver") -> None:
    await driver.keys("a", "enter", "space")


async def results(driver: "Driver") -> None:
    await ask(driver)
    await driver.keys("l")


async def keys_page(driver: "Driver") -> None:
    await driver.keys("question_mark")


async def choose(driver: "Driver") -> None:
    driver.app.workspace.class_list.focus()
    await driver.keys("slash", "w")


async def problems(driver: "Driver") -> None:
    await ask(driver)
    await driver.keys("b")


async def confusion(driver: "Driver") -> None:
    await driver.keys("k")
    await driver.type("2")


SCENES: list[Scene] = [
    workspace,
    unknown,
    photos,
    empty,
    picker,
    results,
    keys_page,
    choose,
    problems,
    confusion,
]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_it_looks_as_it_did(scene: Scene, size: tuple[int, int], drive: "Drive", snapshot: Snapshot) -> None:
    async def scenario(driver: "Driver") -> None:
        driver.app.animation_level = "none"
        driver.app.workspace.jobs.say("")
        await scene(driver)
        for field in driver.app.screen.query(Input):
            field.cursor_blink = False
        await driver.idle()
        snapshot(driver.app, f"{scene.__name__.replace('_', '-')}-{size[0]}x{size[1]}")

    drive(scenario, size=size)


def test_every_key_of_the_help_page_is_bound_and_every_bound_key_is_on_it(drive: "Drive") -> None:
    names = {"/": "slash", ",": "comma", ".": "full_stop", "[": "left_square_bracket", "]": "right_square_bracket"}
    names |= {"-": "minus", "+": "plus", "esc": "escape"}
    told = {names.get(key, key) for keys in KEYS.values() for cell, _ in keys for key in cell.split()}
    told = told - {"1-9"} | set("123456789")

    async def scenario(driver: "Driver") -> None:
        workspace = driver.app.workspace
        nodes = [driver.app, workspace, workspace.gallery, workspace.preview, workspace.class_list]
        bound = {key for node in nodes for key in node._bindings.key_to_bindings}
        assert told <= bound
        own = {key for key in workspace._bindings.key_to_bindings if key not in ("delete", "f1", "question_mark")}
        assert Screen._merged_bindings is not None
        inherited = Screen._merged_bindings.key_to_bindings
        others = {"less_than_sign", "greater_than_sign", "equals_sign"}  # the same keys with shift
        assert own - others - {key for key in own if key in inherited} <= told

    drive(scenario, size=(80, 24))


def test_a_page_closes_with_any_of_its_keys(drive: "Drive") -> None:
    async def scenario(driver: "Driver") -> None:
        for key in ("escape", "q", "enter", "question_mark"):
            await driver.keys("question_mark")
            assert [type(screen) for screen in driver.app.screen_stack[-1:]] == [Page]
            await driver.keys(key)
            assert [type(screen) for screen in driver.app.screen_stack[-1:]] == [Workspace]

    drive(scenario, size=(80, 24))


def test_the_title_follows_the_width(drive: "Drive", lines: Callable[[Any], list[str]]) -> None:
    async def scenario(driver: "Driver") -> None:
        for width in (100, 80, 140):
            await driver.pilot.resize_terminal(width, 30)
            await driver.pilot.pause()
            title = lines(driver.app)[0].removesuffix(" (b) ")
            assert (len(title) + 5, title[-9:]) == (width, "1 problem"), title

    drive(scenario, size=(120, 30))
