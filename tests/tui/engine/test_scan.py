"""Scanning paths, and the folder listing of the picker."""

import zipfile
from pathlib import Path

import pytest
from frn_tui.engine.worker_queues import Cancelled

from frn.projects.class_files import class_files
from tests.tui.engine.conftest import Engine


def test_scan_groups_paths_by_kind(bare: Engine, moths: Path, tmp_path: Path) -> None:
    image = next((moths / "test").glob("*/*.png"))
    assert bare.done("scan", path=str(image))["files"] == [str(image)]
    folder = bare.done("scan", path=str(image.parent))
    assert (folder["kind"], len(folder["files"])) == ("folder", 12)
    assert bare.done("scan", path=str(image.parent), level=1) == folder
    classes = bare.done("scan", path=str(moths / "test"))
    assert classes["kind"] == "classes"
    assert [len(files) for files in classes["classes"].values()] == [12] * 5
    for name, reason in (("away", "away: No such file or directory"), ("a\0b", "embedded null byte")):
        assert reason in bare.done("scan", path=str(tmp_path / name))["reason"]
    project = tmp_path / "x.FRN.json"
    project.write_text("{}")
    assert bare.done("scan", path=str(project))["kind"] == "project"


def test_class_folders_take_precedence_over_loose_images(bare: Engine, tmp_path: Path) -> None:
    (tmp_path / "loose.png").touch()
    (tmp_path / "empty").mkdir()
    assert bare.done("scan", path=str(tmp_path))["kind"] == "folder"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.jpg").touch()
    assert bare.done("scan", path=str(tmp_path))["classes"] == {"full": [str(tmp_path / "full" / "a.jpg")]}


def test_images_next_to_class_folders_are_reported(bare: Engine, tmp_path: Path) -> None:
    loose = tmp_path / "loose.png"
    (tmp_path / "full").mkdir()
    for path in (loose, tmp_path / "full" / "a.jpg"):
        path.write_text("12")
    found = bare.done("scan", path=str(tmp_path))
    assert (found["kind"], found["files"]) == ("classes", [str(loose)])
    stamps = bare.done("stamp", paths=[str(loose), str(tmp_path / "away")])
    assert stamps == {str(loose): [2, loose.stat().st_mtime_ns]}
    with zipfile.ZipFile(packed := tmp_path / "day.zip", "w") as archive:
        archive.write(loose, "x.png")
    status, inside = packed.stat(), str(packed / "x.png")
    assert bare.done("stamp", paths=[inside]) == {inside: [status.st_size, status.st_mtime_ns]}


def test_a_scan_skips_hidden_entries_and_lists_no_folder_twice(bare: Engine, tmp_path: Path) -> None:
    home = tmp_path / "a"
    (home / "b").mkdir(parents=True)
    (home / "b" / "x.png").touch()
    (home / "cached").mkdir()
    for name in (".hidden.png", "cached/x.png", "cached/CACHEDIR.TAG"):
        (home / name).touch()
    (home / "same").symlink_to(home)
    (home / "self").symlink_to(home / "self")
    found = bare.done("scan", path=str(home))
    assert found["classes"] == {"b": [str(home / "b" / "x.png")]}


def test_a_scan_can_be_cancelled(tmp_path: Path) -> None:
    for i in range(200):
        (tmp_path / f"{i}").mkdir()
    checks = iter(range(100))

    def check() -> None:
        if next(checks) == 50:
            raise Cancelled

    with pytest.raises(Cancelled):
        class_files(tmp_path, check=check)


def test_a_listing_contains_the_picker_entries(bare: Engine, tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "p.frn.json", "m.onnx", "text.txt", ".hidden.png"):
        (tmp_path / name).touch()
    (tmp_path / "z").mkdir()
    found = bare.done("list", path=f"{tmp_path}/z/..")
    assert found["path"] == str(tmp_path)
    kinds = [(entry["kind"], entry["name"]) for entry in found["entries"] if entry["name"] != "cache"]
    assert kinds == [
        ("folder", "z"),
        ("image", "a.JPG"),
        ("image", "b.png"),
        ("project", "p.frn.json"),
        ("model", "m.onnx"),
    ]
    assert "cannot be listed" in bare.ask("list", path=str(tmp_path / "away")).reason


def test_subfolders_are_listed_level_by_level(bare: Engine, tmp_path: Path) -> None:
    for name in ("owl/barn/night", "jay", ".hidden/x"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "owl" / "barn" / "again").symlink_to(tmp_path)
    found = bare.done("folders", path=str(tmp_path))
    assert found[:3] == ["jay", "owl", "owl/barn"]
    assert "owl/barn/night" in found
    assert not any("hidden" in name or "again/" in name for name in found)
