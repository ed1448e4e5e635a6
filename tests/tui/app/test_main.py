"""The command line of the app without a terminal."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes


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
