"""Quitting, exporting and opening an external viewer with the keyboard."""

import subprocess
import sys

import pytest
from frn_tui.client.protocol import EXISTS, EngineError
from frn_tui.dialogs.dialogs import AskText, Choose

from tests.tui.conftest import Drive
from tests.tui.fake_engine import FakeEngine


async def test_save_and_quit_saves_under_a_name_and_quits(drive: Drive, fake_engine: FakeEngine) -> None:
    saved: list[str] = []

    def save(tell: object, **arguments: str) -> None:
        saved.append(arguments["path"])

    fake_engine.op_save = save  # type: ignore[method-assign]
    driver = await drive()
    app = driver.app
    app.controller.session.create("finch")
    await driver.pilot.press("ctrl+q")
    await driver.until(lambda: isinstance(app.screen, Choose))
    await driver.pilot.press(*"save", "enter")
    await driver.until(lambda: isinstance(app.screen, AskText))
    field = app.screen.query_one("Input")
    field.value = "/home/mine"  # type: ignore[attr-defined]
    await driver.pilot.press("enter")
    await driver.until(lambda: app._exit)
    assert saved == ["/home/mine.frn.json"]


async def test_a_save_that_fails_does_not_quit(drive: Drive, fake_engine: FakeEngine) -> None:
    def save(tell: object, **arguments: str) -> None:
        raise EngineError("/home/x.frn.json: cannot be written (No space left on device, 9 bytes)")

    fake_engine.op_save = save  # type: ignore[method-assign]
    driver = await drive()
    app = driver.app
    app.controller.project = "/home/x.frn.json"
    app.controller.session.create("finch")
    await driver.pilot.press("ctrl+q")
    await driver.until(lambda: isinstance(app.screen, Choose))
    await driver.pilot.press("enter")
    await driver.idle()
    assert not app._exit
    assert app.screen is app.workspace
    assert not app.controller.session.is_saved


@pytest.mark.parametrize(
    ("chosen", "what", "run"),
    [
        ("from photo", "classifier", "InferenceSession(/home/x)"),
        ("half", "half", "InferenceSession"),
        ("page", "page", "python -m http.server --directory /home/x"),
        ("int8", "int8", "InferenceSession"),
        ("OpenVINO", "openvino", "openvino.Core()"),
        ("numpy", "arrays", "numpy.load(/home/x)"),
    ],
)
async def test_export_format_is_chosen_and_replaces_only_on_request(
    drive: Drive, fake_engine: FakeEngine, chosen: str, what: str, run: str
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def export(tell: object, path: str, what: str, replace: bool) -> None:
        asked.append((path, what, replace))
        if not replace:
            raise EngineError(f"{path}: is in the way", code=EXISTS)

    fake_engine.op_export = export  # type: ignore[assignment, method-assign]
    driver = await drive()
    await driver.keys("e")
    await driver.type(chosen)
    await driver.until(lambda: isinstance(driver.app.screen, AskText))
    field = driver.app.screen.query_one("Input")
    field.value = "/home/x"  # type: ignore[attr-defined]
    await driver.pilot.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, Choose))
    await driver.pilot.press("enter")
    await driver.idle()
    assert asked == [("/home/x", what, False), ("/home/x", what, True)]
    assert run in driver.app.context.jobs._message


async def test_o_opens_the_focused_photo(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def popen(command: list[str], **options: object) -> None:
        if command[0] == "broken":
            raise FileNotFoundError(2, "No such file or directory")
        assert options["start_new_session"]
        started.append(command)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setenv("FRN_VIEWER", sys.executable)
    driver = await drive()
    app = driver.app
    await driver.keys("o")
    assert started == []
    await driver.keys("tab", "o")
    assert started.pop() == [sys.executable, "/photos/jay/jay-0.jpg"]
    app.workspace.ask(["/queries/owl-10.jpg"])
    await driver.idle()
    await driver.keys("tab", "o")
    assert started.pop() == [sys.executable, "/queries/owl-10.jpg"]
    monkeypatch.setenv("FRN_VIEWER", "broken")
    await driver.keys("o")
    assert any("broken: cannot be started" in note.message for note in app._notifications)
    monkeypatch.delenv("FRN_VIEWER")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    await driver.keys("o")
    assert started.pop() == ["xdg-open", "/queries/owl-10.jpg"]
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    await driver.keys("o")
    assert any("no desktop to show a photo" in note.message for note in app._notifications)
    assert not started
