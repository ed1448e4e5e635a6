"""Quitting and exporting with the keyboard."""

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
        ("page", "page", "python -m http.server --directory /home/x"),
    ],
)
async def test_export_format_is_chosen_and_replaces_only_on_request(
    drive: Drive, fake_engine: FakeEngine, chosen: str, what: str, run: str
) -> None:
    asked: list[tuple[str, str, bool]] = []

    def export(tell: object, path: str, what: str, replace: bool) -> str:
        asked.append((path, what, replace))
        if not replace:
            raise EngineError(f"{path}: is in the way", code=EXISTS)
        return ""

    fake_engine.op_export = export  # type: ignore[method-assign]
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
    assert run in driver.said
