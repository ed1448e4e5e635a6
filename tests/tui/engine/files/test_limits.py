"""Limits of scans and listings, exact texts of what cannot be used, and progress of sorting."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.tui.engine.conftest import Engine


def test_message_about_a_folder_or_file_that_cannot_be_used(bare: Engine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").touch()
    os.mkfifo(tmp_path / "pipe.png")
    for name, reason in (
        ("empty", "has no class folders with photos. It needs a folder of images per class."),
        ("pipe.png", "is not a regular file"),
        ("text.txt", "is not a folder, an image ("),
    ):
        assert bare.done("scan", path=str(tmp_path / name))["reason"].startswith(f"{tmp_path / name}: {reason}")
    assert bare.done("scan", path=" ")["reason"] == "no path given"


def test_folder_that_cannot_be_listed_is_reported(
    bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: str) -> object:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)
    assert bare.done("scan", path=str(tmp_path / "x"))["reason"] == (
        f"{tmp_path / 'x'}: cannot be listed (Permission denied)"
    )
    assert "cannot be listed (Permission denied)" in bare.ask("list", path=str(tmp_path / "x")).reason
    assert bare.done("folders", path=str(tmp_path / "x")) == []


def test_sorting_reports_what_is_not_a_file(bare: Engine, tmp_path: Path) -> None:
    photo, folder = tmp_path / "a.jpg", tmp_path / "folder.jpg"
    photo.write_text("1")
    folder.mkdir()
    done = bare.sort(folder=str(tmp_path / "out"), photos=[[str(photo), "jay"], [str(folder), "jay"]])
    assert done["failed"] == [[str(folder), "is not a regular file"]]
    assert (done["journal"], done["twins"]) == ("", [])
    file = tmp_path / "out" / "jay" / "a.jpg"
    again = bare.sort(folder=str(tmp_path / "out"), photos=[[str(file), "jay"]], move=True)
    assert again["places"] == {str(file): str(file)}  # it is there already
    assert (again["twins"], file.read_text()) == ([], "1")
    reason = bare.ask("sort", folder=str(photo), path=str(photo), verdict="a", verdicts=["a"]).reason
    assert reason == f"{photo}: is a file; choose a folder"


def test_journal_that_cannot_be_created_stops_a_move(bare: Engine, tmp_path: Path, state_folder: Path) -> None:
    photo = tmp_path / "a.jpg"
    photo.write_text("1")
    state_folder.mkdir(parents=True, exist_ok=True)
    (state_folder / "moved").write_text("a file")
    arguments: dict[str, Any] = {"path": str(photo), "verdict": "jay", "verdicts": ["jay"]}
    reason = bare.ask("sort", folder=str(tmp_path / "out"), move=True, **arguments).reason
    assert reason.startswith(f"{state_folder / 'moved'}")
    assert reason.endswith("; no photo was moved")
    assert photo.exists()
