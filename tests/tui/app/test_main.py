"""The start of the app, and every size and theme."""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.settings.settings import Settings
from textual.screen import Screen

from tests import processes
from tests.tui.conftest import Drive


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frn_tui.main", *map(str, words)]
    return processes.run(command)


def test_app_in_a_pipe_shows_the_command_to_use_instead(tmp_path: Path) -> None:
    for words in ([], [tmp_path]):
        result = run(*words)
        assert (result.returncode, result.stdout) == (1, "")
        assert "needs a terminal" in result.stderr
        assert "`frn classify`" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_arguments_that_cannot_be_opened_fail_before_the_app_starts(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no photos")
    for place, reason in (("nosuch", "nosuch: No such file or directory"), (text, "is not a folder of class folders")):
        result = run(place)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("error: ")
        assert reason in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_the_first_paint_needs_no_numpy() -> None:
    code = (
        "import sys; from frn_tui.app import FrnApp\n"
        "FrnApp._begin = FrnApp.exit; FrnApp().run(headless=True)\n"
        "assert not {'numpy', 'torch', 'PIL', 'onnxruntime'} & set(sys.modules)"
    )
    assert (result := processes.run([sys.executable, "-c", code])).returncode == 0, result.stderr


def test_help_and_version_do_not_import_the_app() -> None:
    code = (
        "import sys; from frn_tui.main import run\n"
        "sys.argv[1:] = ['--help']\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "assert not {'textual', 'numpy', 'torch', 'PIL', 'typer'} & set(sys.modules)"
    )
    result = processes.run([sys.executable, "-c", code])
    assert result.returncode == 0, result.stderr
    assert "Without arguments, it opens the sample photos" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="needs pseudo-terminals")
def test_app_ends_when_its_terminal_disappears_without_a_signal(private_state: Path) -> None:
    master, slave = os.openpty()
    # Start a separate session without a controlling terminal, so that no SIGHUP is sent.
    command = [sys.executable, "-m", "frn_tui.main", "--model", "conv4"]
    with processes.started(command, stdin=slave, stdout=slave, stderr=slave) as app:
        os.close(slave)
        seen = b""
        while b"nautilus" not in seen:
            assert select.select([master], [], [], processes.SECONDS)[0], seen
            seen += os.read(master, 65536)
        os.close(master)
        assert app.wait(timeout=30) == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("model", "reason"),
    [("nomodel", "no model file, run folder or model has this name"), ("run", "has not been exported yet")],
)
def test_model_that_cannot_be_opened_gives_a_one_line_error(tmp_path: Path, model: str, reason: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best.safetensors").touch()
    result = run("--model", tmp_path / model)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {tmp_path / model}: {reason}")
    assert result.stderr.count("\n") == 1


COLORS = ["none", "standard", "256", "truecolor"]
THEMES = ["textual-dark", "textual-light", "ansi-dark"]
SIZES = [(80, 24), (140, 40), (40, 12), (200, 50), (20, 5)]
KEYS = ["H t tab", "g question_mark escape", "z z", "L escape", "shift+tab t"]
"""Texts of each screen that do not appear on the first screen."""
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


@pytest.mark.parametrize(
    "colors", [*COLORS[:2], *(pytest.param(each, marks=pytest.mark.nightly) for each in COLORS[2:])]
)
async def test_every_size_and_theme_uses_only_available_colours(
    colors: str,
    drive: Drive,
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


async def test_single_cell_window_becomes_idle(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
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
    no_color: bool, shown: str, drive: Drive, private_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Settings(theme="ansi-light").write()
    if no_color:
        monkeypatch.setenv("NO_COLOR", "")
    driver = await drive(size=(80, 24))
    assert driver.app.theme == shown
