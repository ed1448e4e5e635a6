"""Classes from zips and tables, and groups that become classes."""

import csv
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import Result

from frn.images.opening import open_image
from frn.projects.project import load_project
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO

CLASSES = ("banded footman", "eyed footman", "tailed footman")


def run(*words: object) -> Result:
    return frn(*words, "--model", "conv4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in CLASSES:
        shutil.copytree(MOTHS / name, tmp_path / "moths" / name)
    return tmp_path / "moths"


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as file:
        for photo in sorted(folder.rglob("*.jpg")):
            file.write(photo, photo.relative_to(folder))
    return path


def table(folder: Path, rows: list[list[str]]) -> Path:
    path = folder.parent / "moths.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def rows_of(folder: Path) -> list[list[str]]:
    return [[str(path.relative_to(folder.parent)), path.parent.name] for path in sorted(folder.rglob("*.jpg"))]


def test_boxes_in_a_csv_and_in_names_give_the_same_answers_as_cropped_photos(folder: Path) -> None:
    box, query = (20, 10, 60, 50), folder.parent / "query.png"
    rows = rows_of(folder)
    told_of = [[*row, *map(str, box)] for row in rows[:1]] + [[*row, "", "", "", ""] for row in rows[1:]]
    odd = [*rows[0], "1", "2", "wide", "4"]
    boxed = table(folder, [["path", "label", "x", "y", "width", "height"], *told_of, odd])
    told = run("classify", boxed, f"{PHOTO}#xywh=20,10,60,50", "--json")
    assert "row 17 is skipped: its box is 1, 2, wide, 4; x, y, width and height must be pixels" in told.stderr
    first = folder.parent / rows[0][0]
    for photo, target in ((PHOTO, query), (first, first.with_suffix(".png"))):
        Image.open(photo).convert("RGB").crop((20, 10, 80, 60)).save(target)
    first.unlink()
    expected = json.loads(run("classify", folder, query, "--json").stdout)
    found = json.loads(told.stdout)
    assert found.pop("image") == f"{PHOTO}#xywh=20,10,60,50"
    expected.pop("image")
    assert found == expected


@pytest.mark.parametrize("form", ["zip", "csv"])
def test_every_command_accepts_a_zip_or_csv_of_classes(folder: Path, tmp_path: Path, form: str) -> None:
    path = zipped(folder) if form == "zip" else table(folder, [["path", "label"], *rows_of(folder)])
    labelled = tmp_path / "labelled" / "eyed footman"
    labelled.mkdir(parents=True)
    shutil.copy(PHOTO, labelled)
    assert run("explain", path, PHOTO, "--out", tmp_path / "why.png").exit_code == 0
    assert json.loads(run("score", path, tmp_path / "labelled", "--json").stdout)["photos"] == 1
    assert "15 are examples" in run("score", folder, path).stderr
    assert run("enroll", path, "--out", tmp_path / "m.frn.json").exit_code == 0
    project = frn("classify", tmp_path / "m.frn.json", PHOTO, "--json")
    assert project.stdout == run("classify", folder, PHOTO, "--json").stdout
    shutil.rmtree(os.environ["FRN_CACHE"])  # the photos are read again, from the zip
    again = frn("classify", tmp_path / "m.frn.json", PHOTO, "--json")
    assert (again.stdout, again.stderr) == (project.stdout, "")


def test_csv_output_of_score_and_classify_can_be_scored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labelled = tmp_path / "labelled" / "eyed footman"
    labelled.mkdir(parents=True)
    shutil.copy(PHOTO, labelled)
    assert run("score", folder, tmp_path / "labelled", "--out", tmp_path / "scored.csv").exit_code == 0
    assert json.loads(run("score", folder, tmp_path / "scored.csv", "--json").stdout)["accuracy"] == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    assert run("score", folder, "labelled", "--out", Path("sub", "scored.csv")).exit_code == 0
    assert json.loads(run("score", folder, Path("sub", "scored.csv"), "--json").stdout)["accuracy"] == 1


def test_rows_without_a_photo_or_a_label_are_reported_and_the_others_are_used(folder: Path) -> None:
    odd = [["x.pdf", "jay"], ["", "jay"], ["moths/y.jpg", ""], ["gone.jpg", "eyed footman"]]
    told = run("classify", table(folder, [["path", "label"], *rows_of(folder), *odd]), PHOTO)
    assert told.exit_code == 0
    for reason in (
        "row 17 is skipped: .pdf",
        "row 18 is skipped: it has no photo",
        "row 19 is skipped: it has no label",
    ):
        assert reason in told.stderr
    (missing,) = [line for line in told.stderr.splitlines() if "missing" in line]
    assert missing.startswith("warning: class 'eyed footman': 1 of 6 photos is missing and not used. The first: ")
    assert missing.endswith("gone.jpg")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its first row is: empty"),
        (b"a,b\n1,2\n", "needs the columns path and label; its first row is: a, b"),
        (b"path,label\n", "has no row with a photo and a label"),
        (b"path,label\n\xff.jpg,x\n", "is not UTF-8 text"),
    ],
)
def test_a_csv_without_classes_is_refused_with_a_one_line_error(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    told = run("classify", tmp_path / "x.csv", PHOTO)
    assert told.exit_code == 1
    assert reason in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_a_damaged_zip_is_refused_but_a_damaged_photo_in_a_zip_is_skipped(folder: Path, tmp_path: Path) -> None:
    path = zipped(folder)
    data = bytearray(path.read_bytes())
    place = data.find(b"\xff\xd8\xff")  # damage the first photo
    data[place : place + 200] = bytes(200)
    path.write_bytes(data)
    told = run("classify", path, PHOTO)
    assert told.exit_code == 0
    assert "cannot be read from the zip" in told.stderr
    (tmp_path / "y.zip").write_bytes(data[:-30])
    told = run("classify", tmp_path / "y.zip", PHOTO)
    assert (told.exit_code, len(told.stderr.splitlines())) == (1, 1)
    assert "is not a complete zip" in told.stderr


def test_zip_names_without_the_utf8_flag_are_read_as_utf8(folder: Path) -> None:
    (folder / "eyed footman").rename(folder / "é footman")
    path = zipped(folder)
    data = path.read_bytes()
    flag = (0x800).to_bytes(2, "little")
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        parts = data.split(magic)
        data = magic.join(
            p if p[place - 4 : place - 2] != flag else p[: place - 4] + bytes(2) + p[place - 2 :] for p in parts
        )
    path.write_bytes(data)
    assert run("classify", path, PHOTO, "--json").stdout == run("classify", folder, PHOTO, "--json").stdout


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
