"""Every screen matches the stored text beside the tests, and its key hints are true.

`FRN_SNAPSHOTS=write pytest tests/tui/screens/test_screens.py` rewrites the texts; review the changes before you keep
them.
"""

import difflib
import itertools
import os
import string
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from frn_tui.dialogs.dialogs import Page
from frn_tui.dialogs.pages import KeysPage
from frn_tui.screens.workspace import Workspace
from rich.style import Style
from textual.widgets import Input

from tests.tui.conftest import Drive, Driver

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"
SIZES = [(80, 24), (140, 40)]
MEDIUM, LARGE = (100, 30), (200, 60)
Snapshot = Callable[[Any, str], None]


def describe(lines: list[str], styles: list[list[Style]]) -> str:
    """Return the text, and below it the runs of cells with the same style; each style has a letter."""
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
    """Compare the screen with its stored text."""

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


async def ask(driver: Driver) -> None:
    await driver.app.workspace.query_pane.ask_now(["/queries"])
    driver.app.workspace.query_pane.picture.preview.focus()
    await driver.keys("full_stop")


async def workspace(driver: Driver) -> None:
    await ask(driver)
    driver.app.workspace.context.jobs.say("")


async def unknown(driver: Driver) -> None:
    await ask(driver)
    await driver.keys("full_stop", "full_stop", "full_stop", "t", "t")


async def photos(driver: Driver) -> None:
    driver.app.workspace.focus_pane("photos")
    await driver.keys("space", "space", "s")


async def empty(driver: Driver) -> None:
    driver.app.workspace.focus_pane("classes")
    await driver.keys("d", "d", "d")
    driver.app.workspace.context.jobs.say("")


async def picker(driver: Driver) -> None:
    await driver.keys("a", "down", "enter", "space")


async def review(driver: Driver) -> None:
    await ask(driver)
    await driver.keys("L")


async def letters(driver: Driver) -> None:
    await review(driver)
    await driver.keys("n", "b")
    driver.app.screen.jobs.say("")  # type: ignore[attr-defined]


async def review_table(driver: Driver) -> None:
    await ask(driver)
    await driver.keys("1")
    driver.app.workspace.context.jobs.say("")
    await driver.keys("L", "s", "g", "space")


async def keys_page(driver: Driver) -> None:
    await driver.keys("question_mark")


async def choose(driver: Driver) -> None:
    driver.app.workspace.focus_pane("classes")
    await driver.keys("slash", "w")


async def problems(driver: Driver) -> None:
    await ask(driver)
    await driver.keys("b")


SCENES: list[Scene] = [workspace, unknown, photos, empty, picker, review, letters, review_table, keys_page]
SCENES += [choose, problems]


SHOWN: list[tuple[Scene, tuple[int, int], str]] = [
    *((scene, size, "dark") for scene, size in itertools.product(SCENES, SIZES)),
    *((scene, size, "dark") for scene, size in itertools.product((workspace, photos, review), (MEDIUM, LARGE))),
    *((scene, (140, 40), "light") for scene in (workspace, photos, review_table, picker, keys_page)),
    *((scene, (80, 24), "no-colour") for scene in (workspace, unknown, photos, letters, review_table, picker)),
]


@pytest.mark.parametrize(
    ("scene", "size", "look"),
    SHOWN,
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else getattr(value, "__name__", value),
)
async def test_screens_match_their_stored_text(
    scene: Scene, size: tuple[int, int], look: str, drive: Drive, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    if look == "no-colour":
        monkeypatch.setenv("NO_COLOR", "1")
    driver = await drive(size=size)
    driver.app.theme = "textual-light" if look == "light" else "textual-dark"
    driver.app.animation_level = "none"
    driver.app.workspace.context.jobs.say("")
    await scene(driver)
    for field in driver.app.screen.query(Input):
        field.cursor_blink = False
    await driver.idle()
    name = f"{scene.__name__.replace('_', '-')}-{size[0]}x{size[1]}"
    snapshot(driver.app, name if look == "dark" else f"{name}-{look}")


@pytest.mark.app(size=(80, 24))
@pytest.mark.parametrize(("opens", "page"), [("question_mark", KeysPage), ("b", Page)])
async def test_a_page_closes_with_any_of_its_keys(driver: Driver, opens: str, page: type) -> None:
    for key in ("escape", "enter", "question_mark"):
        await driver.keys(opens)
        assert [type(screen) for screen in driver.app.screen_stack[-1:]] == [page]
        await driver.keys(key)
        assert [type(screen) for screen in driver.app.screen_stack[-1:]] == [Workspace]


async def test_typing_searches_the_keys(driver: Driver, lines: Callable[[Any], list[str]]) -> None:
    await driver.keys("question_mark")
    text = "\n".join(lines(driver.app))
    assert all(word in text for word in ("Build classes", "Classify", "Correct", "View", "Save and export", "Fixed"))
    await driver.keys("slash", *"mirror")
    assert "no key matches" in "\n".join(lines(driver.app))
    await driver.keys("ctrl+u", *"undo the last")
    text = "\n".join(lines(driver.app))
    assert "undo the last step" in text
    assert "redo" not in text


@pytest.mark.app(size=(120, 30))
async def test_the_title_follows_the_width(driver: Driver, lines: Callable[[Any], list[str]]) -> None:
    for width in (100, 80, 140):
        await driver.pilot.resize_terminal(width, 30)
        await driver.pilot.pause()
        title = lines(driver.app)[0].removesuffix(" (b) ")
        assert (len(title) + 5, title[-9:]) == (width, "1 problem"), title
