"""Pasted paths from dropped files, and typed paths."""

from pathlib import Path

import pytest
from frn_tui.terminal.paths import AT_START, absolute, parse_paths, shortened


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a/b.jpg", ["/a/b.jpg"]),
        ("  /a/b c.jpg \n\n/d.jpg\n", ["/a/b c.jpg", "/d.jpg"]),
        ("'/a/b c.jpg' '/d.jpg'", ["/a/b c.jpg", "/d.jpg"]),
        ('"/a/b c.jpg"', ["/a/b c.jpg"]),
        (r"/a/b\ c.jpg /d.jpg", ["/a/b c.jpg", "/d.jpg"]),
        ("/a/b.jpg /c/d.jpg", ["/a/b.jpg", "/c/d.jpg"]),
        ("file:///a/b%20c%C3%A4.jpg file:///d.jpg", ["/a/b cä.jpg", "/d.jpg"]),
        ("/a/Tom's photo.jpg", ["/a/Tom's photo.jpg"]),
        ("/a/Bob's and Ann's birds/x.jpg", ["/a/Bob's and Ann's birds/x.jpg"]),
        ("~/Bob's and Ann's/x.jpg", ["~/Bob's and Ann's/x.jpg"]),
        ("/a.jpg '/b c.jpg'", ["/a.jpg", "/b c.jpg"]),
        (r"/a/Bob\'s.jpg", ["/a/Bob's.jpg"]),
        ("", []),
    ],
)
def test_pasted_text_becomes_paths(text: str, paths: list[str]) -> None:
    assert parse_paths(text) == paths


def test_path_in_the_home_folder_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert [shortened(path) for path in ("/home/ada/photos", "/home/ada", "/home/adam/photos")] == [
        "~/photos",
        "~",
        "/home/adam/photos",
    ]


def test_path_resolves_in_a_deleted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert absolute("birds/../x.frn.json") == f"{AT_START}/x.frn.json"
    assert absolute("/x") == "/x"
