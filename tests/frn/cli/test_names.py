"""Names are printed unchanged: no markup, no emoji codes, no line breaks."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.commands import frn
from tests.drawings import DRAWINGS

MOTHS, QUERIES = DRAWINGS / "moths", DRAWINGS / "queries"
PHOTO = QUERIES / "eyed footman 6.jpg"
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
