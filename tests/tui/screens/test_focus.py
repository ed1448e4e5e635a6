"""The focus after classifying, and what dialogs remember and distinguish."""

from typing import TYPE_CHECKING

import pytest
from frn_tui.dialogs.picker import Picker

if TYPE_CHECKING:
    from tests.tui.conftest import Drive, Driver


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_a_digit_labels_the_query(drive: "Drive", size: tuple[int, int]) -> None:
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


async def test_browsing_continues_while_both_panes_are_visible(driver: "Driver") -> None:
    gallery = driver.app.workspace.photos_pane.gallery
    gallery.focus()
    await driver.keys("enter")
    assert driver.app.controller.query.answers
    assert gallery.has_focus


async def test_file_picker_starts_in_the_last_folder(driver: "Driver") -> None:
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
