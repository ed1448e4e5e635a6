"""Remembered settings."""

from pathlib import Path

import pytest
from frn_tui.app import FrnApp
from frn_tui.client.protocol import MIRROR
from frn_tui.settings.settings import Settings, settings_path

from tests.tui.conftest import Drive
from tests.tui.fake_engine import FakeEngine


def test_settings_are_remembered(private_state: Path) -> None:
    settings = Settings("dracula", ["/a"]).opened("/b")
    settings.write()
    assert Settings.read() == settings
    assert settings.opened("/a").recent == ["/a", "/b"]


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"theme": 5}', '{"recent": [2]}', "[" * 9999])
def test_invalid_settings_file_is_reported_and_left_unchanged(private_state: Path, text: str) -> None:
    """A user may have edited the file; a misplaced comma should not discard all of it."""
    private_state.mkdir()
    settings_path().write_text(text)
    settings = Settings.read()
    assert settings.theme == ""
    assert str(settings_path()) in settings.trouble
    assert "\n" not in settings.trouble
    settings.opened("/b").write()
    assert settings_path().read_text() == text


async def test_folders_saved_by_another_app_are_kept(drive: Drive, private_state: Path) -> None:
    Settings(recent=["/old"]).write()

    await drive()
    Settings(recent=["/theirs", *Settings.read().recent], theme="nord").write()
    await drive.aclose()
    assert Settings.read().recent == ["/theirs", "/photos", "/old"]


async def test_sizes_are_remembered_between_sessions(drive: Drive, private_state: Path) -> None:
    driver = await drive()
    await driver.keys("tab", "right_curly_bracket")
    driver = await drive()
    workspace = driver.app.workspace
    assert workspace.photos_pane.gallery.tile_width == Settings.read().tile_width > 0


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


def test_theme_comes_from_the_settings(private_state: Path) -> None:
    Settings(theme="nord").write()
    assert FrnApp().theme == "nord"
