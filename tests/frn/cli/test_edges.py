"""Unusual terminals, interrupts, long waits and impossible arguments."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from frn.cli.shell import console
from frn.cli.shell.console import live_text, progress_bar
from frn.images.opening import open_image
from frn.inference.classifier import Classifier
from frn.models.zoo import added_models
from tests import processes
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO, QUERIES

NO_STDOUT = "error: stdout cannot be written (Bad file descriptor)\n"


def program(*words: object, **options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frn", *map(str, words)]
    return processes.run(command, env={**os.environ, **options})


def test_too_many_threads_are_a_usage_error() -> None:
    result = frn("eval", "conv4", "--data", "nowhere", "--threads", 1025)
    assert result.exit_code == 2
    assert "--threads" in result.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--way", 0), "--way"),
        (("--shot", 0), "--shot"),
        (("--queries", 0), "--queries"),
        (("--backbone", "torchvision:resnet18"), "`frn models add torchvision:resnet18` adds one"),
    ],
)
def test_untrainable_settings_are_refused_before_anything_starts(
    tmp_path: Path, words: tuple[str, object], reason: str
) -> None:
    result = frn("train", "demo", "--out", tmp_path / "run", *words)
    assert result.exit_code == (1 if "--backbone" in words else 2)
    assert reason in " ".join(result.stderr.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


def test_initial_model_is_checked_before_images_are_decoded(tmp_path: Path) -> None:
    result = frn("train", "demo", "--out", tmp_path / "run", "--init", "resnet12-small")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: --init is a resnet12-small model, but the run trains conv4. Give another model, or --backbone "
        "resnet12-small.\n"
    )
    assert not Path(os.environ["FRN_CACHE"], "images").exists()


def test_a_run_without_validation_reports_its_last_checkpoint(tmp_path: Path) -> None:
    last = tmp_path / "run" / "last.safetensors"
    last.parent.mkdir()
    last.write_bytes(b"whatever")
    (tmp_path / "data" / "test" / "a").mkdir(parents=True)
    (tmp_path / "data" / "test" / "a" / "1.jpg").write_bytes(PHOTO.read_bytes())
    result = frn("eval", last.parent, "--data", tmp_path / "data")
    assert result.stderr == (
        f"error: {last.parent}: this run has not been validated yet, so it has no best.safetensors. {last} has the "
        "current weights.\n"
    )


def test_ascii_terminal_receives_only_ascii(tmp_path: Path) -> None:
    photo = tmp_path / "Käfer.jpg"
    photo.write_bytes(PHOTO.read_bytes())
    result = program("classify", MOTHS, photo, PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.isascii()
    assert "K\\xe4fer.jpg: eyed footman" in result.stdout
    assert "####" in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("--version",), ("models",)])
def test_failed_output_gives_a_one_line_error(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "frn", *words]
        result = processes.run(command, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr == "error: stdout cannot be written (No space left on device)\n"


INTERRUPTED_AT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
module = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background was started with it ignored
sys.meta_path.insert(0, Interrupt())
from frn.__main__ import run
run()
"""


@pytest.mark.skipif(os.name == "nt", reason="a signal to oneself ends the process there")
@pytest.mark.parametrize("module", ["typer", "numpy", "onnxruntime"])
def test_ctrl_c_while_a_module_is_loaded_ends_without_a_traceback(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, module, "classify", str(MOTHS), str(PHOTO)]
    result = processes.run(command)
    assert result.returncode in (-signal.SIGINT, 130)
    assert result.stderr in ("", "interrupted\n")
    assert result.stdout == ""


def test_unusable_metadata_does_not_cause_a_library_error_message(tmp_path: Path) -> None:
    photo = tmp_path / "x.jpg"
    Image.open(PHOTO).save(photo, exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x0f\x01\x02\0\xff\xff\0\0\0\x10\0\0")
    with pytest.warns(UserWarning, match="Tag data larger|Corrupt EXIF|Truncated File"):
        open_image(photo)
    result = program("classify", MOTHS, photo, "--model", "conv4", "--json")
    assert (result.returncode, result.stderr) == (0, "")


TOO_LONG = "a" * 300  # a path that raises on every system call, like a file in a folder without permission


@pytest.mark.parametrize(
    "words",
    [
        ("classify", TOO_LONG, PHOTO),
        ("classify", MOTHS, PHOTO, "--report", f"{TOO_LONG}.html"),
        ("classify", MOTHS, PHOTO, "--model", TOO_LONG),
        ("enroll", MOTHS, "--out", f"{TOO_LONG}.frn.json"),
        ("data", "check", TOO_LONG),
        ("eval", "conv4", "--data", TOO_LONG),
    ],
)
def test_inaccessible_path_gives_a_one_line_error(words: tuple[object, ...]) -> None:
    result = frn(*words)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: aaa")
    assert result.stderr.endswith("(File name too long)\n")
    assert result.stderr.count("\n") == 1


def test_unreadable_home_folder_is_treated_as_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / TOO_LONG))
    assert frn("presets", "demo").exit_code == 0

    def closed(path: Path, pattern: str) -> list[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "glob", closed)
    assert "Permission denied" in frn("classify", MOTHS, PHOTO).stderr
    monkeypatch.delenv("FRN_MODELS")
    assert added_models() == {}


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes them")
@pytest.mark.parametrize(
    ("closed", "words", "status", "printed", "told"),
    [
        ("2>&-", ("classify", MOTHS, "none.jpg", "--json", "--model", "conv4"), 1, '{"image"', ""),
        (">&-", ("--version",), 1, "", NO_STDOUT),
        (">&-", ("classify", MOTHS, PHOTO, "--model", "conv4"), 1, "", NO_STDOUT),
        ("<&-", ("classify", MOTHS, "-"), 1, "", "error: -: stdin is closed\n"),
    ],
)
def test_closed_stderr_is_discarded_and_a_closed_stdout_is_an_error(
    closed: str, words: tuple[object, ...], status: int, printed: str, told: str
) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    result = processes.run([*shell, sys.executable, "-m", "frn", *map(str, words)])
    assert (result.returncode, result.stderr) == (status, told)
    assert result.stdout.startswith(printed)
    assert len(result.stdout.splitlines()) == bool(printed)


@pytest.mark.parametrize(
    "words",
    [
        ("classify", MOTHS, ""),
        ("classify", "", PHOTO),
        ("classify", MOTHS, PHOTO, "--model", ""),
        ("classify", MOTHS, PHOTO, "--out="),
        ("data", "check", ""),
        ("enroll", "jay=", f"wren={MOTHS}", "--out", "x.frn.json"),
        ("reproduce", "cub-cropped", "--data", "cub-cropped=", "--dry-run"),
    ],
)
def test_empty_argument_does_not_mean_the_current_folder(words: tuple[object, ...]) -> None:
    assert "error: an argument is empty" in frn(*words).stderr


def test_a_model_or_preset_takes_precedence_over_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("conv4", "demo"):
        (tmp_path / name).mkdir()
    assert "nowhere" in frn("eval", "conv4", "--data", "nowhere").stderr
    assert "--data has no effect" in frn("train", "demo", "--data", "nowhere").stderr


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_reported_before_the_work(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0o500)
    told = frn("score", MOTHS, MOTHS, "--report", closed / "x.html").stderr
    assert told == f"error: {closed / 'x.html'}: cannot be written (no permission for {closed})\n"


@pytest.mark.parametrize("command", ["score", "finetune", "enroll"])
def test_a_photo_instead_of_classes_is_a_file_without_classes(command: str) -> None:
    words = [MOTHS] if command == "score" else ["--out", "x.frn.json"]
    assert (
        f"{PHOTO}: is a file without classes. Pass a folder, zip, CSV or project." in frn(command, PHOTO, *words).stderr
    )


def test_a_run_is_not_written_into_a_folder_of_photos(tmp_path: Path) -> None:
    (tmp_path / "jay").mkdir()
    told = frn("train", "demo", "--out", tmp_path).stderr
    assert told.endswith(f"error: {tmp_path}: contains folders, such as jay. Give another --out.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["jay"]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the printed lines, with an interval of a few milliseconds."""
    told: list[str] = []
    monkeypatch.setattr(console, "EVERY", 0.02)
    monkeypatch.setattr(console, "note", told.append)
    return told


def wait_for(pattern: str, lines: list[str]) -> None:
    end = time.monotonic() + 20
    while not any(re.fullmatch(pattern, line) for line in lines):
        assert time.monotonic() < end, lines
        time.sleep(0.01)


def test_progress_in_a_pipe_is_printed_as_lines(lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("photos") as progress:
        wait_for(r"photos \(\d+ s\)", lines)
        progress(1_200, 3_000)
        wait_for(r"photos: 1,200 of 3,000 \(\d+ s\)", lines)
    assert capsys.readouterr().out == ""


def test_status_in_a_pipe_is_printed_as_a_line(lines: list[str]) -> None:
    with live_text("looking") as say:
        say("fetching: 2 MB")
        wait_for(r"fetching: 2 MB \(\d+ s\)", lines)


def test_short_waits_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("photos") as progress, live_text("looking"):
        progress(1, 2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["classify", "score", "explain", "enroll"])
def test_enrolling_in_a_pipe_reports_progress(
    command: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroll = Classifier.enroll_state

    def slow(*words: Any, **options: Any) -> Any:
        wait_for(r"enrolling .* \(\d+ s\)", lines)
        return enroll(*words, **options)

    monkeypatch.setattr(Classifier, "enroll_state", slow)
    words: dict[str, list[object]] = {
        "classify": [MOTHS, QUERIES],
        "score": [MOTHS, MOTHS],
        "explain": [MOTHS, PHOTO, "--out", tmp_path / "x.png"],
        "enroll": [MOTHS, "--out", tmp_path / "x.frn.json"],
    }
    told = frn(command, *words[command], "--model", "conv4")
    assert any(re.fullmatch(r"enrolling .* \(\d+ s\)", line) for line in lines)
    assert not re.search("^enrolling", told.stdout, re.MULTILINE)
