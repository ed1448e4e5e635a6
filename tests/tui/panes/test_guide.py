"""The first minute: from the samples to your own photos."""

from collections.abc import Callable
from typing import Any

from frn_tui.app import FIRST_SAMPLE
from frn_tui.settings.settings import Settings

from frn.models.zoo import assets_folder
from tests.tui.conftest import Drive, Driver

Lines = Callable[[Any], list[str]]


async def test_three_steps_of_the_guide_disappear_when_done(drive: Drive, lines: Lines) -> None:
    driver = await drive()
    workspace = driver.app.workspace
    assert "to see the next" not in "\n".join(lines(driver.app))  # a path was given
    await workspace.controller.open_folder(None, (await workspace.controller.scan("/photos"))["classes"])
    await workspace.query_pane.ask_now(["/queries"])
    await driver.idle()
    text = "\n".join(lines(driver.app))
    assert "· press . to see the next" in text
    assert "frn-tui --web" in text  # half blocks: say how to see real photos
    await driver.keys("full_stop")
    assert "✓ press . to see the next" in "\n".join(lines(driver.app))
    await workspace.classes_pane.add_now(["/photos"])
    await driver.idle()
    assert "✓ press a to add" in "\n".join(lines(driver.app))
    await workspace.query_pane.ask_now(["/photos/jay/jay-0.jpg"])
    await driver.idle()
    assert "press p to classify" not in "\n".join(lines(driver.app))
    await drive.aclose()
    assert Settings.read().guided

    driver = await drive()
    controller = driver.app.controller
    await controller.open_folder(None, (await controller.scan("/photos"))["classes"])
    await driver.idle()
    assert not driver.app.workspace.classes_pane.guide.display


async def test_samples_open_as_piles_until_a_class_is_wanted(driver: Driver, lines: Lines) -> None:
    workspace = driver.app.workspace
    await workspace.controller.open_folder(None, (await workspace.controller.scan("/photos"))["classes"])
    workspace.photos_pane.open_with_piles(True)
    await workspace.query_pane.ask_now(["/queries"])
    await driver.idle()
    answers = {answer["path"]: answer for answer in workspace.controller.query.answers}
    piles = workspace.photos_pane.piles
    assert piles.paths
    for item in piles.items:
        assert (item.name == "?") == bool(answers[item.path].get("unknown"))
    assert piles.display
    assert not workspace.photos_pane.gallery.display
    await driver.keys("tab")  # no key may act on a photo that is not shown
    assert workspace.photos_pane.gallery.has_focus
    assert not piles.display


def test_first_sample_file_exists() -> None:
    assert (assets_folder() / "samples" / "queries" / FIRST_SAMPLE).is_file()


async def test_finished_job_disappears_while_watching_continues(driver: Driver, lines: Lines) -> None:
    context = driver.app.workspace.context
    context.progress("Classifying", 1, 2)
    await driver.pilot.pause()
    assert "Classifying" in "".join(lines(driver.app))
    context.progress("Classifying", 2, 2)
    await driver.pilot.pause()
    assert "Classifying" not in "".join(lines(driver.app))
