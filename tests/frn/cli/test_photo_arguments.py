"""Photo arguments of `frn classify`: names, folders, globs and lists; one bad argument does not stop the others."""

import json
import os
import zipfile
from pathlib import Path

import pytest
from frn_tui.terminal.paths import parse_paths
from typer.testing import Result

from frn.data.folders import scan
from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.projects.folder_tree import Broken
from tests.commands import frn
from tests.drawings import DRAWINGS

MOTHS, QUERIES = DRAWINGS / "moths", DRAWINGS / "queries"
PHOTO = QUERIES / "eyed footman 6.jpg"
TOO_LONG = "a" * 300 + ".jpg"
"""No system allows such a name: every call with it fails, as for files in a folder without permission."""


def classify(*words: object, stdin: bytes | None = None) -> Result:
    words = ("classify", MOTHS, *words, "--model", "conv4", "--json")
    return frn(*words, stdin=stdin)


def images(result: Result) -> list[str]:
    return [json.loads(line)["image"] for line in result.stdout.splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one photo and an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x1.jpg").write_bytes(PHOTO.read_bytes())
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_folder_and_zip_contain_all_photos_below_them(here: Path) -> None:
    (here / "year" / "may").mkdir(parents=True)
    for name in ("10.jpg", "9.jpg", "may/y.jpg"):
        (here / "year" / name).write_bytes(PHOTO.read_bytes())
    (here / "year" / "notes.txt").write_text("x")
    with zipfile.ZipFile(here / "year.zip", "w") as archive:
        for path in sorted((here / "year").rglob("*.*")):
            archive.write(path, path.relative_to(here / "year"))
    for source in ("year", "year.zip"):
        result = classify(source)
        assert images(result) == [f"{source}/9.jpg", f"{source}/10.jpg", f"{source}/may/y.jpg"]
        assert result.stderr == f"warning: {source}/notes.txt: is skipped: .txt is not a supported image format\n"
        assert images(classify("-", stdin=source.encode())) == images(result)
    assert classify("empty").stderr == "error: empty: contains no images\n"


@pytest.mark.parametrize("name", ["file://{}", "file:{}", "FILE://localhost{}", "file://otherhost{}", "file://[::1{}"])
def test_file_urls_follow_one_rule(here: Path, name: str) -> None:
    (here / "a b.jpg").write_bytes(PHOTO.read_bytes())
    path, url = str(here / "a b.jpg"), name.format(str(here / "a b.jpg").replace(" ", "%20"))
    (here / "x.csv").write_text(f"path,label\n{url},jay\n")
    (here / "y.csv").write_text(f"path,label\n{path},jay\n")
    told, table = classify(url), frn("enroll", "x.csv", "--out", "x.frn.json", "--model", "conv4")
    if "[" in name or "other" in name:
        reason = f"{url}: is not a file of this machine. Give its path, or a URL such as file:///photos/x.jpg."
        assert (told.exit_code, told.stderr) == (1, f"error: {reason}\n")
        assert table.stderr.endswith(f"x.csv: row 2 is skipped: {reason}\n")
        with pytest.raises(FrnError, match="is not a file of this machine"):
            FewShotClassifier("conv4").fit([url], ["jay"])
    else:
        assert images(told) == images(classify("-", stdin=url.encode())) == [path]
        assert table.exit_code == 0, table.stderr
        assert FewShotClassifier("conv4").fit([url], ["jay"]).classes_ == ["jay"]
    assert parse_paths(url) == [path if told.exit_code == 0 else url]


def test_a_box_of_a_box_is_reported(here: Path) -> None:
    told = classify("x1.jpg" + "#xywh=0,0,9,9" * 1200, f"x1.jpg{'#xywh=0,0,9,9' * 2}", "x1.jpg#xywh=0,0,90,90")
    assert ["error" in json.loads(line) for line in told.stdout.splitlines()] == [True, True, False]
    assert "x1.jpg#xywh=0,0,9,9: has a box already" in told.stdout


@pytest.mark.parametrize("listed", [False, True])
def test_an_invalid_name_is_reported_in_order(here: Path, listed: bool) -> None:
    names = (TOO_LONG, "x1.jpg")
    result = classify("-", stdin="\n".join(names).encode()) if listed else classify(*names)
    assert images(result) == [*names]
    assert result.stderr == "error: 1 of 2 images could not be read\n"


def test_listed_names_are_not_treated_as_globs_and_invalid_ones_are_skipped(here: Path) -> None:
    result = classify("-", stdin=b"x1.jpg\nx[1].jpg\nempty\n*.png\n")
    assert images(result) == ["x1.jpg", "x[1].jpg", "*.png"]
    assert result.stderr == "warning: empty: contains no images\nerror: 2 of 3 images could not be read\n"
    assert images(classify("x[1].jpg")) == ["x1.jpg"]
    assert classify("-", stdin=b"empty").stderr.endswith("error: -: the folders listed on stdin contain no photos\n")


def test_list_is_split_only_at_newlines(here: Path) -> None:
    odd = "form\x0cfeed\x1c.jpg"
    (here / odd).write_bytes(PHOTO.read_bytes())
    result = classify("-", stdin=b"\xef\xbb\xbfx1.jpg\r\n" + os.fsencode(odd) + b"\r\n\r\n")
    assert result.exit_code == 0
    assert images(result) == ["x1.jpg", odd]


def test_photos_are_reported_under_the_names_as_given(here: Path) -> None:
    (here / "more").mkdir()
    (here / "more" / "y.jpg").write_bytes(PHOTO.read_bytes())
    assert images(classify("./x1.jpg", "./more/../more//y.jpg", "./more", "more/")) == [
        "./x1.jpg",
        "./more/../more//y.jpg",
        "./more/y.jpg",
        "more/y.jpg",
    ]


def test_an_unreadable_listed_folder_is_reported_in_order(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(folder: Path) -> tuple[list[str], list[Broken]]:
        raise FrnError(f"{folder}: cannot be listed (Permission denied)")

    monkeypatch.setattr("frn.cli.shell.photo_arguments.photos_below", closed)
    result = classify("-", stdin=b"empty\nx1.jpg\n")
    assert images(result) == ["empty", "x1.jpg"]
    assert result.exit_code == 1


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_circular_link_fails_as_a_single_file(here: Path) -> None:
    circle = here / "circle.jpg"
    circle.symlink_to(circle)
    result = classify(".")
    assert images(result) == [f".{os.sep}circle.jpg", f".{os.sep}x1.jpg"]
    assert "error: 1 of 2 images could not be read\n" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_class_behind_a_dangling_link_is_reported(here: Path) -> None:
    for name in ("a", "b"):
        (here / "classes" / name).mkdir(parents=True)
        (here / "classes" / name / "1.jpg").write_bytes(
            sorted((MOTHS / "eyed footman").iterdir())[name == "a"].read_bytes()
        )
    (here / "classes" / "gone").symlink_to(here / "unmounted")
    assert [entry.reason for entry in scan(here / "classes").skipped] == [
        f"{here / 'classes' / 'gone'}: is skipped: it is a broken link"
    ]


def test_a_box_of_a_file_with_brackets_is_not_a_glob(here: Path) -> None:
    (here / "x[1].jpg").write_bytes(PHOTO.read_bytes())
    names = ["x[1].jpg", "x[1].jpg#xywh=0,0,40,40"]
    result = classify(*names)
    assert result.stderr == ""
    assert images(result) == names


def test_a_file_with_brackets_in_a_zip_is_not_a_glob(here: Path) -> None:
    with zipfile.ZipFile(here / "day.zip", "w") as archive:
        archive.write(PHOTO, "walk [2]/moth [1].jpg")
    result = classify("day.zip/walk [2]/moth [1].jpg")
    assert result.exit_code == 0, result.stderr
    assert images(result) == ["day.zip/walk [2]/moth [1].jpg"]
