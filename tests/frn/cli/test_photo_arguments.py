"""Photos as arguments, and unusual names in the output."""

import csv
import io
import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from frn_tui.terminal.paths import parse_paths
from typer.testing import Result

from frn.cli.shell.console import print_json
from frn.data.folders import scan
from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.projects.folder_tree import Broken
from frn.system.csv_rows import csv_row
from tests.commands import frn
from tests.drawings import MOTHS, PHOTO

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


ODD = ":dog: [v2] [bold]"


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes, one with an unusual name and photos with unusual names."""
    monkeypatch.chdir(tmp_path)
    for name in ("eyed footman", "tailed footman", "banded footman"):
        shutil.copytree(MOTHS / name, tmp_path / "classes" / name)
    odd = (tmp_path / "classes" / "eyed footman").rename(tmp_path / "classes" / ODD)
    for path in odd.iterdir():
        path.rename(odd / f"{path.stem} [final].jpg")
    return tmp_path / "classes"


def test_brackets_and_colons_are_not_markup(classes: Path) -> None:
    photo = Path(f"{ODD}.jpg")
    shutil.copy(PHOTO, photo)
    words = (classes, photo, "--model", "conv4")
    assert frn("classify", *words).stdout.startswith(f"{photo}: {ODD} ")
    assert frn("explain", *words, "--out", f"{ODD}.png").stdout.startswith(f"{ODD}.png: {ODD} rather than ")
    enrolled = frn("enroll", classes, "--out", f"{ODD}.frn.json", "--model", "conv4").stdout
    assert f"\n{ODD}" in enrolled
    assert "[final].jpg" in enrolled
    for out in (ODD, "a[/b]c"):
        made = frn("data", "prepare", "folder", "--source", classes, "--out", out, "--val", 0.34, "--test", 0.34).stdout
        assert made.endswith(f"  {Path(out) / 'test'}\n")


def test_long_path_is_not_wrapped(classes: Path) -> None:
    long = Path(*["a" * 200] * 6)
    long.mkdir(parents=True)
    shutil.copy(PHOTO, long)
    assert len(frn("classify", classes, long / PHOTO.name, "--model", "conv4", "--top", 1).stdout.splitlines()) == 1


def test_a_name_of_several_lines_or_not_in_utf8_works(classes: Path) -> None:
    (classes / "tailed footman").rename(classes / "tailed\nfootman")
    (classes / "banded footman").rename(classes / os.fsdecode(b"banded \xff"))
    words = (classes, PHOTO, "--model", "conv4")
    assert frn("explain", *words, "--out", "x.png").exit_code == 0
    told = frn("classify", *words, "--json")
    assert told.exit_code == 0
    assert len(json.loads(told.stdout)["probabilities"]) == 3


HOSTILE = ["=HYPERLINK(1)", "@SUM(A1)", "-2+3", "+1", "\t=1", "＝1", "a\rb", 'a"b', "a,b", "a\nb", "\x1b[2J"]
STEERING = "\x1b]0;title\a \x9b2J \u202e\u2066 \r\n \x7f"


def test_every_record_is_a_single_row_and_no_text_is_a_formula() -> None:
    text = csv_row(["name", "n"]) + "".join(csv_row([each, -0.5]) for each in HOSTILE)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert text.startswith("name,n\r\n")
    assert [row["name"].removeprefix("'") for row in rows] == HOSTILE
    assert [row["name"][0] == "'" for row in rows] == [True] * 6 + [False] * 5
    assert {row["n"] for row in rows} == {"-0.5"}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_output_contains_no_terminal_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal(newline="")
    monkeypatch.setattr(sys, "stdout", shown)
    print_json({"image": STEERING, "letters": "ü字"})
    text = shown.getvalue()
    assert text.removesuffix("\n").isprintable()
    assert json.loads(text) == {"image": STEERING, "letters": "ü字"}
    assert "ü字" in text
