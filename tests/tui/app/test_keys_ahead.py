"""Keys sent ahead arrive in order, at the screen that is on top when they are handled."""

from pathlib import Path

from frn_tui.dialogs.dialogs import Line
from frn_tui.dialogs.picker import Picker
from textual import events
from textual.keys import _character_to_key

from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine


def send(driver: Driver, *keys: str) -> None:
    """Send keys as a terminal does: all at once, without waiting."""
    for key in keys:
        character = key if len(key) == 1 else None
        name = _character_to_key(key) if character else key
        driver.app.post_message(events.Key(name, character if character != " " else " "))


async def test_format_and_path_typed_ahead_arrive(driver: Driver, fake_engine: FakeEngine) -> None:
    driver.app.workspace.ask(["/queries"])
    await driver.idle()
    await driver.keys("L")
    send(driver, "e", "down", "enter", *["ctrl+u"], *"/out/my results.jsonl", "enter")
    await driver.until(lambda: fake_engine.written)
    ((path, text),) = fake_engine.written.items()
    assert path == "/out/my results.jsonl"
    assert text.startswith('{"image"')


async def test_a_path_with_blanks_can_be_typed_into_the_picker_and_marks_nothing(
    drive: Drive, fake_engine: FakeEngine
) -> None:
    fake_engine.FOLDERS = {**FakeEngine.FOLDERS, "/my birds": ["jay-1.jpg", "jay-2.jpg"]}  # type: ignore[misc]
    driver = await drive()
    send(driver, "p", *"/my birds/jay-2.jpg", "enter")
    await driver.until(lambda: driver.app.controller.query.answers)
    assert [answer["path"] for answer in driver.app.controller.query.answers] == ["/my birds/jay-2.jpg"]
    assert not isinstance(driver.app.screen, Picker)


async def test_five_hundred_keys_in_one_write_arrive_in_order(drive: Drive) -> None:
    """Create classes by typing their names: each opens a dialog, is typed and closes it."""
    names = [f"class {number} {'y' * 60}" for number in range(5)]
    driver = await drive(place=str(Path("/photos")))
    keys = [key for name in names for key in ("A", *name, "enter")]
    keys += ["A", *("x" * 200)]
    assert len(keys) >= 500
    send(driver, *keys)
    await driver.until(lambda: [field.value for field in driver.app.screen.query(Line)] == ["x" * 200], seconds=60)
    assert [name for name in driver.counts if name.startswith("class")] == names
