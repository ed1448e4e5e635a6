"""Every screen is painted at every size, with all colour modes and themes, and nothing else reaches the terminal."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from frn_tui.settings.settings import Settings
from textual.screen import Screen

if TYPE_CHECKING:
    from tests.tui.conftest import Drive

COLORS = ["truecolor", "256", "standard", "none"]
THEMES = ["textual-dark", "textual-light", "ansi-dark"]
SIZES = [(80, 24), (140, 40), (40, 12), (200, 50), (20, 5)]
KEYS = ["H t tab", "g question_mark escape", "z z", "L escape", "shift+tab t"]
"""Texts of each screen that do not appear on the first screen."""
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


@pytest.mark.parametrize("colors", COLORS)
async def test_every_size_and_theme_uses_only_available_colours(
    colors: str,
    drive: "Drive",
    lines: Callable[[Any], list[str]],
    sent: Callable[[Any], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if colors == "none":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.setattr("textual.constants.COLOR_SYSTEM", colors)
    driver = await drive(images="auto")
    assert driver.app.workspace.context.mode == "half"
    await driver.app.workspace.query_pane.ask_now(["/queries"])
    for step, size in enumerate(SIZES):  # every pair of size, theme and colour mode occurs
        driver.app.theme = THEMES[(step + COLORS.index(colors)) % len(THEMES)]
        await driver.pilot.resize_terminal(*size)
        for key in KEYS[step].split():
            await driver.pilot.press(key)
            await driver.pilot.pause()
            painted = lines(driver.app)
            assert len(painted) == size[1]
            assert "".join(painted).strip()
            assert not [char for line in painted for char in line if not char.isprintable()]
            check_colors(sent(driver.app), colors)


def check_colors(text: str, colors: str) -> None:
    assert not [char for char in SEQUENCE.sub("", text) if not char.isprintable() and char != "\n"]
    painting = [parameters for parameters, final in SEQUENCE.findall(text) if final == "m"]
    assert painting
    if colors in ("256", "standard"):
        assert not [parameters for parameters in painting if "8;2;" in parameters]
    if colors == "standard":
        assert not [parameters for parameters in painting if "8;5;" in parameters]
    if colors == "none":
        shades = [match.groups() for p in painting for match in re.finditer(r"[34]8;2;(\d+);(\d+);(\d+)", p)]
        assert all(red == green == blue for red, green, blue in shades)


async def test_single_cell_window_becomes_idle(drive: "Drive", monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrollbar that covers its own content would appear and disappear forever."""
    laid_out = []
    refresh = Screen._refresh_layout

    def counted(screen: Screen[object], *size: Any, **how: Any) -> None:
        laid_out.append(screen)
        refresh(screen, *size, **how)

    monkeypatch.setattr(Screen, "_refresh_layout", counted)
    driver = await drive()
    for key in ("tab", "question_mark", "ctrl+q"):  # the workspace, a page, a selection list
        await driver.pilot.resize_terminal(80, 24)
        await driver.keys(key)
        await driver.pilot.resize_terminal(1, 1)
        for _ in range(50):
            before = len(laid_out)
            await driver.pilot.pause(0.1)
            if len(laid_out) == before:
                break
        else:
            raise AssertionError(f"{driver.app.screen} is laid out again and again")
        await driver.pilot.press("escape")


@pytest.mark.parametrize(("no_color", "shown"), [(False, "ansi-light"), (True, "textual-dark")])
async def test_theme_is_remembered_unless_colours_are_off(
    no_color: bool, shown: str, drive: "Drive", private_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Settings(theme="ansi-light").write()
    if no_color:
        monkeypatch.setenv("NO_COLOR", "")
    driver = await drive(size=(80, 24))
    assert driver.app.theme == shown
