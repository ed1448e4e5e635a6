"""Every key does what the table says, in any focused pane or screen, and the focus stays where it is useful."""

from pathlib import Path
from typing import Any

import pytest
from frn_tui.dialogs.picker import Picker
from frn_tui.panes.project import PANES
from frn_tui.panes.review import Review
from frn_tui.screens.workspace import FOOTERS
from frn_tui.settings.keys import BOUND, TABLE
from textual.widgets import Static

from tests.tui.conftest import Drive, Driver


@pytest.mark.parametrize("place", [*PANES, "review"])
async def test_every_key_runs_its_own_action_in_every_pane_and_in_the_review(
    place: str, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    driver = await drive()
    workspace = driver.app.workspace
    workspace.ask(["/queries"])
    await driver.idle()
    if place == "review":
        await driver.keys("L")
    else:
        workspace.focus_pane(place)
    await driver.pilot.pause()
    screen: Any = driver.app.screen
    assert isinstance(screen, Review) == (place == "review")

    async def noted(name: str) -> None:
        done.append(name)

    monkeypatch.setattr(screen, "action_do", noted)
    for name, row in BOUND.items():
        for key in row.keys.split(","):
            done.clear()
            await driver.pilot.press(key)
            assert done == [name], key


async def test_the_key_line_lists_only_keys_that_currently_work(driver: Driver) -> None:
    workspace = driver.app.workspace

    def line() -> str:
        return str(workspace.query_one("#keys", Static).content)

    workspace.focus_pane("query")
    await driver.pilot.pause()
    assert "right" not in line()
    assert "undo" not in line()
    assert "save" not in line()
    await workspace.query_pane.ask_now(["/queries/swan-1.jpg"])
    assert "right" in line()
    await driver.keys("y")
    assert "undo" in line()
    assert "save" in line()
    assert not workspace.needed()["next-answer"]
    await workspace.query_pane.ask_now(["/queries/jay-10.jpg"])
    assert workspace.needed()["next-answer"]  # of two
    workspace.focus_pane("classes")
    await driver.pilot.pause()
    assert "rename" in line()
    await driver.keys("d", "d", "d")
    assert "rename" not in line()
    for names in FOOTERS.values():
        assert all(TABLE[name].label for name in names)


async def test_a_line_says_what_a_digit_key_would_do(driver: Driver) -> None:
    workspace, jobs = driver.app.workspace, driver.app.context.jobs
    await workspace.query_pane.ask_now(["/queries/swan-1.jpg"])
    workspace.focus_pane("query")
    await driver.pilot.pause()
    assert jobs.hint == "1-9: add swan-1.jpg to:  1 jay  2 owl  3 wren"
    workspace.focus_pane("photos")
    await driver.pilot.pause()
    assert jobs.hint == "1-9: move jay-0.jpg to:  1 jay  2 owl  3 wren"
    await driver.keys("space", "right", "space")
    assert jobs.hint.startswith("1-9: move 2 photos to:")
    await driver.keys("3")
    assert driver.counts["wren"] == 7


def test_the_docs_contain_the_table() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "app-keys.md").read_text(encoding="utf-8")
    missing = [name for name, row in BOUND.items() if not name.startswith("class-") and row.meaning not in text]
    assert missing == []


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_a_digit_labels_the_query(drive: Drive, size: tuple[int, int]) -> None:
    driver = await drive(size=size)
    workspace = driver.app.workspace
    workspace.ask(["/queries/owl-10.jpg"])
    await driver.idle()
    assert "1-9: add owl-10.jpg to" in workspace.context.jobs.hint
    before = driver.counts["wren"]
    await driver.keys("3")
    assert driver.counts["wren"] == before + 1

    workspace.classes_pane.list.focus()
    await driver.keys("1")
    assert (driver.counts["jay"], driver.counts["wren"]) == (7, before)  # it was labelled as a wren
    workspace.photos_pane.gallery.focus()
    await driver.pilot.pause()
    assert "1-9: move" in workspace.context.jobs.hint


async def test_browsing_continues_while_both_panes_are_visible(driver: Driver) -> None:
    gallery = driver.app.workspace.photos_pane.gallery
    gallery.focus()
    await driver.keys("enter")
    assert driver.app.controller.query.answers
    assert gallery.has_focus


async def test_file_picker_starts_in_the_last_folder(driver: Driver) -> None:
    folders = []
    for keys in (("a", "right", "escape"), ("p", "escape")):
        await driver.keys(keys[0])
        for key in keys[1:]:
            assert isinstance(driver.app.screen, Picker)
            await driver.keys(key)
            if isinstance(driver.app.screen, Picker):
                await driver.until(lambda: driver.app.screen.folder == "/photos/jay")  # type: ignore[attr-defined]
        folders.append(driver.app.workspace.context.browsed)
    assert folders == ["/photos/jay"] * 2
