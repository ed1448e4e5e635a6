"""A project that is open in two apps at once."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from frn_tui.client.client import EngineClient
from frn_tui.client.file_requests import FindHolder, LoadProject, LockProject, SaveProject
from frn_tui.client.protocol import OPEN_ELSEWHERE, EngineError, OpenModel
from frn_tui.dialogs.dialogs import AskText

from frn.projects.session import ClassEntry, State
from tests import processes
from tests.tui.conftest import Drive
from tests.tui.fake_engine import FakeEngine

PROJECT = "/home/birds.frn.json"
STATE = State((ClassEntry(1, "x"),), next_id=2)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until it is asked to end."""
    with processes.started([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def engine_of(process: int) -> EngineClient:
    """The engine of the app with this process ID."""
    client = EngineClient()
    client.command[client.command.index("--app") + 1] = str(process)
    return client


async def test_the_second_app_shows_a_warning_and_cannot_overwrite_work_in_the_first(
    tmp_path: Path, private_state: Path, other: subprocess.Popen[bytes]
) -> None:
    path = str(tmp_path / "x.frn.json")
    first, second = EngineClient(), engine_of(other.pid)
    try:
        for client in (first, second):
            await client.start()
            await client.call(OpenModel(model="conv4"))
        await first.call(SaveProject(path=path, state=STATE, replace=False))
        await first.call(LockProject(path=path))
        assert (await first.call(FindHolder(path=path))) is None
        assert (await second.call(FindHolder(path=path))) == os.getpid()
        await second.call(LoadProject(path=path))
        with pytest.raises(EngineError, match=rf"open in another frn-tui \(process {os.getpid()}\)"):
            await second.call(SaveProject(path=path, state=STATE, replace=True))

        await second.call(LockProject(path=path))  # takes over the project, which the first app reports
        with pytest.raises(EngineError, match="Save under another name"):
            await first.call(SaveProject(path=path, state=STATE, replace=False))
        await first.call(SaveProject(path=str(tmp_path / "mine.frn.json"), state=STATE, replace=False))
        await second.call(LockProject(path=None))
        assert (await first.call(FindHolder(path=path))) is None

        await second.call(LockProject(path=path))
        await second.close()
        assert (await first.call(FindHolder(path=path))) is None  # a lock is released when its app ends
        await first.call(SaveProject(path=path, state=STATE, replace=False, origin=path))
    finally:
        await first.close()
        await second.close()


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
async def test_a_project_is_locked_again_after_its_engine_was_killed(
    tmp_path: Path, private_state: Path, other: subprocess.Popen[bytes]
) -> None:
    path = str(tmp_path / "x.frn.json")
    first, second = EngineClient(), engine_of(other.pid)
    try:
        await first.start()
        await second.start()
        await first.call(LockProject(path))
        killed = first.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        while first.state != "dead":
            await asyncio.sleep(0.01)
        await first.call(FindHolder(path=path))
        while await second.call(FindHolder(path=path)) is None:
            await asyncio.sleep(0.01)
        assert await second.call(FindHolder(path=path)) == os.getpid()
    finally:
        await first.close()
        await second.close()


@pytest.mark.parametrize(("option", "project"), [("copy", None), ("take it over", PROJECT), ("cancel", "before")])
async def test_second_app_can_save_a_copy_or_take_over(
    drive: Drive, fake_engine: FakeEngine, option: str, project: str | None
) -> None:
    fake_engine.holders[PROJECT] = 4321
    driver = await drive()
    app = driver.app
    app.controller.project = "before"
    app.controller.session.mark_saved()
    app.workspace.classes_pane.add([PROJECT])
    asked = "open in another frn-tui (process 4321)"
    await driver.until(lambda: asked in getattr(app.screen, "dialog_title", ""))
    await driver.type(option)
    await driver.idle()
    assert app.controller.project == project
    assert ("jay" in driver.counts and len(driver.counts) == 1) == (option != "cancel")
    assert fake_engine.locked == (project if option != "cancel" else None)


async def test_saving_a_project_taken_over_by_another_app_asks_for_another_name(
    drive: Drive, fake_engine: FakeEngine
) -> None:
    saved: list[str] = []

    def save(tell: object, **arguments: str) -> None:
        if arguments["path"] == PROJECT:
            raise EngineError(
                f"{PROJECT}: is open in another frn-tui (process 4321). Save under another name.", code=OPEN_ELSEWHERE
            )
        saved.append(arguments["path"])

    fake_engine.op_save = save  # type: ignore[method-assign]
    driver = await drive()
    driver.app.controller.project = PROJECT
    await driver.pilot.press("ctrl+s")
    await driver.until(lambda: isinstance(driver.app.screen, AskText))
    await driver.type("/home/mine")
    assert saved == ["/home/mine.frn.json"]
    assert driver.app.controller.session.is_saved
