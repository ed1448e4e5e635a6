"""Long operations report their progress in a pipe: lines on stderr, and nothing on stdout."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from frn.cli.shell import console
from frn.cli.shell.console import live_text, progress_bar
from frn.inference.classifier import Classifier
from tests.commands import frn
from tests.drawings import DRAWINGS

SAMPLES = DRAWINGS


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
        "classify": [SAMPLES / "moths", SAMPLES / "queries"],
        "score": [SAMPLES / "moths", SAMPLES / "moths"],
        "explain": [SAMPLES / "moths", SAMPLES / "queries" / "eyed footman 6.jpg", "--out", tmp_path / "x.png"],
        "enroll": [SAMPLES / "moths", "--out", tmp_path / "x.frn.json"],
    }
    told = frn(command, *words[command], "--model", "conv4")
    assert any(re.fullmatch(r"enrolling .* \(\d+ s\)", line) for line in lines)
    assert not re.search("^enrolling", told.stdout, re.MULTILINE)
