"""Remembered settings, the settings screen, and custom keys."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from frn_tui.app import FrnApp
from frn_tui.client.protocol import MIRROR
from frn_tui.dialogs.dialogs import Choose, PressKey
from frn_tui.settings.keys import change_key, keys_path, read_own_keys, usable
from frn_tui.settings.settings import Settings, settings_path

from frn.models.zoo import DEFAULT_MODEL
from tests.tui.conftest import Drive, Driver
from tests.tui.fake_engine import FakeEngine


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All toasts, however long a test takes."""
    toasts: list[str] = []
    notify = FrnApp.notify

    def tell(app: FrnApp, message: str, **options: Any) -> None:
        toasts.append(message)
        notify(app, message, **options)

    monkeypatch.setattr(FrnApp, "notify", tell)
    return toasts


def test_settings_are_remembered(private_state: Path) -> None:
    settings = Settings("dracula", "none", "/m/features.onnx", ["/a"]).opened("/b")
    settings.write()
    assert Settings.read() == settings
    assert settings.opened("/a").recent == ["/a", "/b"]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '{"images": "sixel"}', '{"recent": [2]}', "[" * 9999],
)
def test_invalid_settings_file_is_reported_and_left_unchanged(private_state: Path, text: str) -> None:
    """A user may have edited the file; a misplaced comma should not discard all of it."""
    private_state.mkdir()
    settings_path().write_text(text)
    settings = Settings.read()
    assert settings.images == "auto"
    assert str(settings_path()) in settings.trouble
    assert "\n" not in settings.trouble
    settings.opened("/b").write()
    assert settings_path().read_text() == text


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ({"ask": "Q"}, {"ask": "Q"}, []),
        ({"ask": "?"}, {}, ["question_mark is already used for help"]),
        ({"ask": "A", "new-class": "p"}, {"ask": "A", "new-class": "p"}, []),
        ({"ask": "A", "new-class": "P", "add": "p"}, {"ask": "A", "new-class": "P", "add": "p"}, []),
        ({"ask": "A", "new-class": "nonsense"}, {}, ["'nonsense' is not a key", "A is already used for new-class"]),
        ({"next-answer": "ctrl+t, f6"}, {"next-answer": "ctrl+t,f6"}, []),
        ({"aks": "q"}, {}, ["unknown name 'aks'"]),
        ({"ask": 7, "add": ""}, {}, ["7 is not a key", "'' is not a key"]),
        ({"ask": "space"}, {}, ["the app itself"]),
        ({"ask": "f7", "add": "f7"}, {"ask": "f7"}, ["f7 is already used for ask"]),
    ],
)
def test_unusable_entries_are_reported_and_skipped(
    wanted: dict[str, object], good: dict[str, str], bad: list[str]
) -> None:
    keymap, troubles = usable(wanted)
    assert keymap == good
    assert len(troubles) == len(bad)
    assert all(part in trouble for part, trouble in zip(bad, troubles, strict=True))


async def test_custom_keys_work_and_are_reloaded_without_a_restart(
    drive: Drive, private_state: Path, told: list[str]
) -> None:
    keys_path().parent.mkdir(parents=True, exist_ok=True)
    keys_path().write_text('ask = "q"\nundo = "ctrl+z,U"\nadd = "m"\n')
    driver = await drive()
    await driver.keys("p")
    assert not driver.app.screen.query("#picker")
    await driver.keys("q")
    assert driver.app.screen.query("#picker")
    await driver.keys("escape")
    before = driver.counts
    driver.app.workspace.focus_pane("classes")
    await driver.keys("delete")
    assert driver.counts != before
    await driver.keys("U")
    assert driver.counts == before
    shown = {command.title: command.help for command in driver.app.get_system_commands(driver.app.screen)}
    assert [shown[name].partition(":")[0] for name in ("Ask", "Undo", "Add")] == ["key q", "key ctrl+z", "key a"]
    assert ["m is already used for move" in said for said in told] == [True]
    keys_path().write_text('ask = "Q"\n')
    driver.app._follow_keys()
    await driver.keys("Q")
    assert driver.app.screen.query("#picker")


async def test_a_key_is_changed_by_pressing_it(drive: Drive, private_state: Path) -> None:
    keys_path().parent.mkdir(parents=True, exist_ok=True)
    keys_path().write_text('# mine\nundo = "U"\n')

    def is_on_top(driver: Driver, title: str) -> bool:
        return str(getattr(driver.app.screen, "dialog_title", "")).startswith(title)

    async def change(driver: Driver, words: str, key: str) -> None:
        await driver.pilot.press("f2")
        for title, text in (("Settings", "keys"), ("Keys", words)):
            await driver.until(partial(is_on_top, driver, title))
            await driver.fill(text)
            await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, PressKey))
        await driver.pilot.press(key)
        await driver.until(lambda: getattr(driver.app.screen, "dialog_title", "") == "Settings")
        await driver.pilot.press("escape")
        await driver.idle()

    driver = await drive()
    await change(driver, "classify photos or", "f7")
    assert keys_path().read_text() == '# mine\nundo = "U"\nask = "f7"\n'
    await driver.keys("f7")
    assert driver.app.screen.query("#picker")
    await driver.keys("escape")
    await change(driver, "classify photos or", "u")
    await change(driver, "undo the last step", "backspace")
    assert read_own_keys()[0] == {"undo": "U", "ask": "u"}  # its default key is in use
    await change(driver, "classify photos or", "a")  # the key for adding photos
    assert read_own_keys()[0] == {"undo": "U", "ask": "u"}
    await change(driver, "classify photos or", "backspace")
    await change(driver, "undo the last step", "backspace")
    assert keys_path().read_text() == "# mine\n"


async def test_folders_saved_by_another_app_are_kept(drive: Drive, private_state: Path) -> None:
    Settings(recent=["/old"]).write()

    await drive()
    Settings(recent=["/theirs", *Settings.read().recent], theme="nord").write()
    await drive.aclose()
    assert Settings.read().recent == ["/theirs", "/photos", "/old"]


async def test_the_settings_screen_changes_the_settings(drive: Drive, private_state: Path) -> None:
    driver = await drive()
    app, pilot = driver.app, driver.pilot

    async def take(title: str, words: str) -> None:
        await driver.until(lambda: getattr(app.screen, "dialog_title", "") == title)
        await driver.fill(words)
        await pilot.press("enter")

    await pilot.press("f2")
    await take("Settings", "theme")
    await take("Theme", "gruvbox")
    await take("Settings", "images")
    await take("Images", "none")
    await take("Settings", "model")
    await take("Default model", "features")
    await take("Path of a features.onnx", "/m/mine.onnx")
    await take("Settings", "keys")
    await driver.until(lambda: getattr(app.screen, "dialog_title", "").startswith("Keys"))
    await pilot.press("enter")
    await driver.until(lambda: isinstance(app.screen, PressKey))
    await pilot.press("escape")
    await driver.until(lambda: isinstance(app.screen, Choose))
    await pilot.press("escape")
    await driver.idle()
    assert app.theme == "gruvbox"
    assert app.workspace.query_pane.picture.preview.mode == app.workspace.photos_pane.gallery.mode == "none"
    await drive.aclose()
    kept = Settings.read()
    assert (kept.theme, kept.images, kept.model) == ("gruvbox", "none", "/m/mine.onnx")


async def test_sizes_are_remembered_between_sessions(drive: Drive, private_state: Path) -> None:
    driver = await drive()
    await driver.keys("tab", "right_parenthesis", "right_parenthesis", "right_curly_bracket")
    driver = await drive()
    workspace = driver.app.workspace
    assert workspace.context.settings.query_share == 60
    assert workspace.photos_pane.gallery.tile_width == Settings.read().tile_width > 0
    assert abs(workspace.query_pane.size.width / workspace.photos_pane.size.width - 1.5) < 0.15


async def test_mirror_images_can_be_set_by_flag_and_undoable_edit(
    drive: Drive, private_state: Path, fake_engine: FakeEngine
) -> None:
    driver = await drive()
    app = driver.app
    plain = app.controller.model_name
    app.context.start(app._change_model, plain + MIRROR)
    await driver.idle()
    assert app.controller.model_name == app.controller.session.state.model == f"{plain}{MIRROR}"
    await driver.keys("u")
    assert app.controller.model_name == plain

    driver = await drive(app=lambda place, **more: FrnApp(place, tta="hflip", **more))
    assert driver.app.controller.model_name.endswith(MIRROR)


async def test_a_missing_model_in_the_settings_is_reported(
    drive: Drive, private_state: Path, fake_engine: FakeEngine, told: list[str]
) -> None:
    from frn_tui.client.protocol import EngineError

    opened = fake_engine.op_open_model

    def open_model(tell: object, model: str) -> dict[str, object]:
        if model != DEFAULT_MODEL:
            raise EngineError(f"{model}: no such file")
        return opened(tell, model)  # type: ignore[arg-type]

    fake_engine.op_open_model = open_model  # type: ignore[method-assign]
    Settings(model="/gone.onnx").write()
    driver = await drive()
    assert driver.app.controller.model_name == DEFAULT_MODEL
    assert ["/gone.onnx" in said for said in told] == [True]


def test_theme_and_drawing_mode_come_from_the_settings(private_state: Path) -> None:
    Settings(theme="nord", images="none").write()
    app = FrnApp()
    assert (app.theme, app.context.mode) == ("nord", "none")


@pytest.mark.parametrize("data", [b"ask = ", b"\xff", b"x = " + b"[" * 3000, b"\r\0"])
def test_a_damaged_file_of_keys_is_reported_in_one_line(data: bytes) -> None:
    keys_path().parent.mkdir(parents=True, exist_ok=True)
    keys_path().write_bytes(data)
    own, (report,) = read_own_keys()
    assert own == {}
    assert report.startswith(f"{keys_path()}: is ignored (")
    assert len(report.splitlines()) == 1
    change_key("ask", "f9")  # reports or writes
