"""Pasted paths from dropped files, and typed paths."""

import unicodedata
from pathlib import Path

import pytest
from frn_tui.terminal.paths import AT_START, absolute, parse_paths, shortened
from frn_tui.terminal.text import class_keys, count_of, display_name
from rich.cells import cell_len

EVIL = [
    "\x1b[31mred\x1b[0m.jpg",
    "two\nlines\r\t.jpg",
    "\x9b31m.jpg",
    "\u202egpj.exe\u202c",
    "\u2066isolated\u2069",
    "zero\u200bwidth\u200d\ufeff",
    "\u2028paragraph\u2029",
    "latin\udce9.jpg",
    "\ud800lone",
    "[bold red]m[x].jpg",
    "-rf",
    "🦜" * 40 + ".jpg",
    "⚠️.jpg",
    "e\u0301" * 30,
    "\x00",
    "",
    "a" * 240,
]


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("width", [None, 0, 1, 2, 5, 16, 80])
def test_control_characters_are_removed(name: str, width: int | None) -> None:
    shown = display_name(name, width)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    shown.encode("utf-8")
    assert width is None or cell_len(shown) <= width


def test_harmless_names_are_unchanged() -> None:
    for name in ("blue jay", "Häher.jpg", "カケス.png", "[bold]", "a b", "e\u0301"):
        assert display_name(name) == name
        assert display_name(name, 80) == name


def test_escapes_show_the_original_character() -> None:
    assert display_name("a\x1b[0m\n\u202e\udcff") == r"a\x1b[0m\n\u202e\xff"
    assert display_name("a\u00a0b\u3000c") == "a b c"
    assert display_name("👩\u200d🔬.jpg") == "👩🔬.jpg"  # terminals disagree on the width of joined emoji


def test_long_name_is_shortened_in_the_middle() -> None:
    assert display_name("a_rather_long_name_0123.jpeg", 15) == "a_rathe…23.jpeg"
    assert display_name("abc", 1) == "…"
    assert display_name("🦜🦜🦜🦜", 5) == "🦜…🦜"


def test_escapes_are_not_cut() -> None:
    for width in range(1, 30):
        shown = display_name("\x1b" * 10, width)
        assert shown.replace(r"\x1b", "").strip("…") == ""


def test_singular_and_plural_follow_the_count() -> None:
    counts = [count_of(1, "photo"), count_of(0, "photo"), count_of(1, "class"), count_of(1200, "class")]
    assert counts == ["1 photo", "0 photos", "1 class", "1,200 classes"]


def test_keys_of_classes_fit_and_say_which_are_hidden() -> None:
    names = ["jay", "owl", "wren", "black-footed albatross"]
    assert class_keys(names, 80) == "1 jay  2 owl  3 wren  4 black-fo…batross"
    assert class_keys(names, 30) == "1 jay  2 owl  3 wren  …4"
    assert class_keys(names, 5) == "1-4 of class"
    for width in range(12, 60):
        assert cell_len(class_keys(names, width)) <= width


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
