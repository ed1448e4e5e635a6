"""A cursor over the cells of a photo shows the example parts that each cell was rebuilt from."""

from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.panes.why import WhyScreen
from frn_tui.screens.workspace import Workspace

from tests.tui.conftest import Driver

Lines = Callable[[Any], list[str]]


async def opened(driver: Driver) -> WhyScreen:
    driver.app.workspace.ask(["/queries/jay-10.jpg"])
    await driver.idle()
    await driver.keys("W")
    await driver.idle()
    screen = driver.app.screen
    assert isinstance(screen, WhyScreen)
    return screen


def framed(screen: WhyScreen) -> list[str]:
    """Return the shares in the frames of the examples."""
    return [mark.text for preview in screen.examples for mark in preview.marks]


async def test_cursor_starts_at_the_first_part_and_shows_where_it_comes_from(driver: Driver, lines: Lines) -> None:
    screen = await opened(driver)
    assert (screen.x, screen.y) == (1, 1)  # the cell with the largest share
    shown = "\n".join(lines(driver.app))
    assert "why it is so" in shown
    assert "this cell decides 50.0%; jay explains 50% of it" in shown
    assert "50%" in framed(screen)
    before = framed(screen)
    await driver.keys("right")
    assert (screen.x, screen.y) == (2, 1)
    assert framed(screen) != before
    await driver.keys("down", "right", "up", "left", "1")  # the cursor stays in the grid
    assert (screen.x, screen.y) == (1, 1)
    assert framed(screen) == before


async def test_tab_shows_the_other_class_and_enter_goes_to_the_example(driver: Driver, lines: Lines) -> None:
    screen = await opened(driver)
    await driver.keys("tab")
    assert "owl explains" in "\n".join(lines(driver.app))
    source = screen.rebuilt["sources"][screen.y * 3 + screen.x][0]["path"]
    await driver.keys("enter")
    workspace: Workspace = driver.app.workspace
    assert driver.app.screen is workspace
    gallery = workspace.photos_pane.gallery
    assert gallery.paths[gallery.cursor] == source


async def test_mouse_moves_the_cursor(driver: Driver) -> None:
    screen = await opened(driver)
    assert screen.photo.picture is not None
    region = screen.photo.region
    await driver.pilot.hover(offset=(region.x + region.width // 2 - 2, region.y + region.height // 2 - 3))
    assert (screen.x, screen.y) == (1, 0)


@pytest.mark.parametrize("where", ["review", "large"])
async def test_it_opens_from_the_review_and_goes_back_or_to_the_example(where: str, driver: Driver) -> None:
    driver.app.workspace.ask(["/queries/jay-10.jpg", "/queries/owl-10.jpg"])
    await driver.idle()
    await driver.keys("L", *["enter"] * (where == "large"), "W")
    await driver.idle()
    names = [type(driver.app.screen).__name__]
    await driver.keys("escape")
    names.append(type(driver.app.screen).__name__)
    assert names == ["WhyScreen", "Review"]
    await driver.keys("W")
    await driver.idle()
    await driver.keys("enter")
    await driver.idle()
    assert driver.app.screen is driver.app.workspace


async def test_misfits_name_the_most_useful_changes(driver: Driver, lines: Lines) -> None:
    await driver.keys("exclamation_mark")
    await driver.idle()
    assert "add photos to owl: it has a single one" in "\n".join(lines(driver.app))
