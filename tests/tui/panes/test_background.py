"""Background work: a watched folder, and the remaining time of a job."""

import asyncio
from types import SimpleNamespace

import pytest
from frn_tui.dialogs.picker import Picker

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine


async def test_progress_of_a_job_stays_while_an_edit_ends(driver: Driver) -> None:
    context, ended = driver.app.context, asyncio.Event()
    context.start(ended.wait)
    context.progress("Opening 3 classes", 2, 9)
    context.edit(lambda session: session.create("wren"))
    await driver.until(lambda: not any(worker.group == "edit" for worker in driver.app.workspace.workers))
    assert "2/9" in str(context.jobs.render())
    ended.set()
    await driver.idle()
    assert "2/9" not in str(context.jobs.render())


async def test_new_photos_in_a_watched_folder_are_classified(
    drive: Drive, fake_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = SimpleNamespace(sleep=lambda seconds: asyncio.sleep(seconds / 100))
    monkeypatch.setattr("frn_tui.panes.query.asyncio", quick)
    folders = {name: list(files) for name, files in fake_engine.FOLDERS.items()}
    monkeypatch.setattr(fake_engine, "FOLDERS", folders)
    driver = await drive()
    app = driver.app
    await driver.pilot.press("w")
    await driver.until(lambda: isinstance(app.screen, Picker))
    picker = app.screen
    picker.dismiss(None)
    await driver.idle()
    assert app.workspace.query_pane.watched is None
    app.workspace.query_pane.watched = "/queries"
    app.workspace.context.start(app.workspace.query_pane.watch_folder, "/queries", group="watch")
    await driver.until(lambda: fake_engine.calls.count("scan") > 3)
    assert app.controller.query.answers == []
    folders["/queries"].append("owl-99.jpg")
    await driver.until(lambda: app.controller.query.answers)
    assert [answer["path"] for answer in app.controller.query.answers] == ["/queries/owl-99.jpg"]
    assert app.controller.query.answer is None
    await driver.until(lambda: str(app.workspace.query_pane.border_title) == "Query · 1 new (>) · watching queries/")
    await driver.pilot.press("greater_than_sign")
    await driver.until(lambda: app.controller.query.answer)
    assert str(app.workspace.query_pane.border_title) == "Query · owl-99.jpg · watching queries/"
    asked = fake_engine.calls.count("query")
    fake_engine.sizes["/queries/owl-99.jpg"] = 2  # the file was incomplete or has changed
    await driver.until(lambda: fake_engine.calls.count("query") > asked)
    assert len(app.controller.query.answers) == 1
    folders["/queries"].append("album")
    folders["/queries/album"] = ["wren-9.jpg"]
    fake_engine.sizes["/queries/album/wren-9.jpg"] = 1000  # the file is still being copied
    looks = fake_engine.calls.count("stamp")
    while fake_engine.calls.count("stamp") < looks + 5:
        fake_engine.sizes["/queries/album/wren-9.jpg"] += 1
        await driver.pilot.pause(0.002)
    assert len(app.controller.query.answers) == 1
    await driver.until(lambda: len(app.controller.query.answers) == 2)
    await driver.pilot.press("w")
    await driver.idle()
    assert not app.workspace.query_pane.watched
    app.workspace.context.start(app.workspace.query_pane.watch_folder, "/nowhere", group="watch")
    await driver.idle()
    assert any("/nowhere: cannot be listed" in note for note in driver.notes)
    assert not driver.said.startswith("watching")
    app.workspace.query_pane.watched = "/queries"
    app.workspace.context.start(app.workspace.query_pane.watch_folder, "/queries", group="watch")
    await driver.until(lambda: driver.said.startswith("watching"))
    for entry in app.controller.session.state.classes:
        app.controller.session.delete(entry.id)
    folders["/queries/album"].append("wren-8.jpg")  # no class is left for comparison
    await driver.until(lambda: app.workspace.query_pane.watched is None)
    await driver.idle()
    assert any("stopped watching /queries" in note for note in driver.notes)
