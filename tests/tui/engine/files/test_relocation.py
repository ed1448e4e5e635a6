"""Searching for moved photos reads only files of the right size."""

from pathlib import Path
from typing import Any

import pytest
from frn_tui.engine.files import scan

from frn.features.feature_cache import content_key
from frn.images.opening import read_file
from tests.tui.engine.conftest import Engine


def test_search_ends_with_the_last_photo_and_reports_each(
    bare: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counting(path: Path) -> bytes:
        read.append(path.name)
        return read_file(path)

    (tmp_path / "in").mkdir()
    for name, text in (("1.png", "one"), ("2.png", "xyz"), ("3.png", "longer"), ("4.png", "four")):
        (tmp_path / "in" / name).write_text(text)
    monkeypatch.setattr(scan, "read_file", counting)
    sizes: dict[str, Any] = {content_key(b"one"): 3, content_key(b"longer"): 6}
    asked = bare.ask("relocate", folder=str(tmp_path / "in"), sizes=sizes)
    assert {key: Path(each["path"]).name for key, each in asked.end["result"].items()} == {
        content_key(b"one"): "1.png",
        content_key(b"longer"): "3.png",
    }
    assert [(event["done"], event["total"]) for event in asked.told("progress")] == [(1, 2), (2, 2)]
    assert read == ["1.png", "2.png", "3.png"]


def test_folder_to_search_must_exist(bare: Engine, tmp_path: Path) -> None:
    reason = bare.ask("relocate", folder=str(tmp_path / "away"), sizes={"0" * 32: 1}).reason
    assert reason == f"{tmp_path / 'away'}: is not a folder; choose the folder to search"
