"""`frn group`: from unlabelled photos to folders or a project."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from typer.testing import Result

from frn.images.opening import open_image
from frn.projects.project import load_project
from tests.commands import frn
from tests.drawings import DRAWINGS

MOTHS = DRAWINGS / "moths"


def group(*words: object) -> Result:
    return frn("group", *words, "--model", "conv4")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Photos of two classes under neutral names; one photo occurs twice."""
    folder = tmp_path / "photos"
    for home in sorted(MOTHS.iterdir())[:2]:
        (folder / home.name).mkdir(parents=True)
        for number, path in enumerate(sorted(home.iterdir())[:5]):
            shutil.copy(path, folder / home.name / f"{number}{path.suffix}")
    first = next(iter(sorted(folder.rglob("*.*"))))
    shutil.copy(first, first.with_stem("again"))
    return folder


def test_each_photo_is_copied_into_the_folder_of_its_group(photos: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in photos.rglob("*.*")}
    out = tmp_path / "groups"
    result = group(*photos.iterdir(), "--out", out, "--groups", 2, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert sorted(found["groups"]) == ["group 1", "group 2"] == sorted(home.name for home in out.iterdir())
    assert len(found["skipped"]) == 1
    assert "is the same photo as" in found["skipped"][0]
    for name, paths in found["groups"].items():
        copies = {path.read_bytes() for path in (out / name).iterdir()}
        assert copies == {Path(path).read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in photos.rglob("*.*")} == before
    again = group(*photos.iterdir(), "--out", out)
    assert again.exit_code == 1
    assert "already exists" in again.stderr


def test_project_refers_to_the_original_photos(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.frn.json"
    result = group(*photos.iterdir(), "--out", out, "--groups", 3)
    assert result.exit_code == 0
    assert "10 photos in 3 groups" in result.stdout
    state = load_project(out).state
    assert [entry.name for entry in state.classes] == ["group 1", "group 2", "group 3"]
    assert {s.path.resolve() for entry in state.classes for s in entry.supports} <= set(photos.rglob("*.*"))


def test_unreadable_photos_are_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photo")
    result = group(broken, "--out", tmp_path / "groups")
    assert result.exit_code == 1
    assert f"none of the 1 photos can be read. The first error: {broken}" in result.stderr


def test_boxes_and_photos_in_a_zip_are_copied(photos: Path, tmp_path: Path) -> None:
    first, second = sorted(photos.rglob("0.*"))
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as packed:
        packed.write(second, "a/0.jpg")
    out = tmp_path / "groups"
    box = f"{first}#xywh=0,0,60,60"
    result = group(box, first, tmp_path / "c.zip" / "a" / "0.jpg", "--out", out, "--groups", 1)
    assert result.exit_code == 0, result.stderr
    copies = sorted((out / "group 1").iterdir())
    assert [path.name[0] for path in copies] == ["1", "2", "3"]
    assert sorted(path.name[1:] for path in copies) == [" 0.jpg", " 0.jpg", " 0.png"]
    assert open_image(next(path for path in copies if path.suffix == ".png")).size == (60, 60)


def test_an_existing_project_or_file_is_refused_at_once(photos: Path, tmp_path: Path) -> None:
    for name in ("old.frn.json", "file"):
        (tmp_path / name).write_text("{}")
        told = group(*photos.iterdir(), "--out", tmp_path / name).stderr
        assert told.startswith(f"error: {tmp_path / name}: already exists. ")
