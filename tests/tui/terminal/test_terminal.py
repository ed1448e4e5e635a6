"""Answers of terminals, names on the screen, and pasted paths."""

import os
import re
import select
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from frn_tui.terminal.paths import AT_START, absolute, parse_paths, shortened
from frn_tui.terminal.terminal import Answers, pixels_of
from frn_tui.terminal.text import class_keys, count_of, display_name
from rich.cells import cell_len

ANSWERS = "\x1bP1$r0;48:2::1:2:3m\x1b\\\x1bP>|XTerm(379)\x1b\\\x1b[6;17;8t\x1b[?1;0;256S\x1b[0n\x1b[?63;1;4;22c"


@pytest.mark.parametrize("cut", range(1, len(ANSWERS)))
def test_terminal_answers_are_removed_from_typed_input_wherever_they_are_split(cut: int) -> None:
    answers = Answers()
    parts = [answers.taken(part) for part in ("a" + ANSWERS[:cut], ANSWERS[cut:] + "b")]
    found = [answer for _, some in parts for answer in some]
    if ANSWERS[cut - 1] == "\x1b":  # after a single key, the parser does not wait for more
        return
    assert "".join(typed for typed, _ in parts) == "ab"
    assert [answer.name for answer in found if answer.name] == ["XTerm(379)"]
    assert [answer.has_true_colour for answer in found].count(True) == 1
    assert [answer.pong for answer in found].count(True) == 1
    assert [answer.cell for answer in found if answer.cell] == [(8, 17)]
    assert [answer.colours for answer in found if answer.colours] == [256]
    assert [answer.can for answer in found if answer.can] == [("63", "1", "4", "22")]


def test_terminal_that_changes_a_colour_does_not_support_true_colour() -> None:
    for style in ("\x1bP1$r0;48:5:16m\x1b\\", "\x1bP0$r\x1b\\"):
        assert [answer.has_true_colour for answer in Answers().taken(style)[1]] == [False]


@pytest.mark.parametrize("typed", ["\x1b", "\x1b[A", "\x1b[<0;5;6M", "\x1b[?2026;2$y", "\x1b[97;5u", "\x1b[15~"])
def test_keys_and_mouse_events_pass_through(typed: str) -> None:
    assert Answers().taken(typed) == (typed, [])


@pytest.mark.parametrize(
    ("name", "can", "in_tmux", "mode"),
    [
        ("kitty(0.41.1)", "62", False, "kitty"),
        ("kitty(0.28.0)", "62", True, "kitty"),
        ("kitty(0.26.5)", "62", False, None),
        ("ghostty 1.1.3", "62;22", False, "kitty"),
        ("XTerm(379)", "63;1;2;4;6", False, "sixel"),
        ("WezTerm 20240203-110809-5046fc22", "65;4;6;18;22", False, "sixel"),
        ("foot(1.21.0)", "62;4;22", False, "sixel"),
        ("", "61;4;6;7;14;21;22;23;24;28;32;42", False, "sixel"),  # Windows Terminal
        ("tmux 3.5a", "1;2;4", True, None),
        ("VTE(7600)", "61;1;21;22", False, None),
        ("", "1;42", False, None),
    ],
)
def test_terminal_answers_select_the_drawing_mode(name: str, can: str, in_tmux: bool, mode: str | None) -> None:
    assert pixels_of(name, can.split(";"), in_tmux=in_tmux) == mode


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
@pytest.mark.parametrize(
    ("answers", "drawn"),
    [
        (b"\x1bP>|kitty(0.41.1)\x1b\\\x1b[6;18;9t\x1b[?62;c", rb"\x1b_Ga=T,U=1,[^;]*;.*\xf4\x8e\xbb\xae"),
        (b"\x1bP>|XTerm(379)\x1b\\\x1b[6;18;9t\x1b[?63;4c", rb'\x1bP0;1q"1;1;\d+;18#'),
    ],
)
def test_the_app_queries_the_terminal_once_and_draws_pixels(private_state: Path, answers: bytes, drawn: bytes) -> None:
    master, slave = os.openpty()
    environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX")}
    app = subprocess.Popen(
        [sys.executable, "-m", "frn_tui.main", "--model", "conv4"],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
    )  # fmt: skip
    os.close(slave)
    try:
        seen, told, deadline = b"", 0, time.monotonic() + 40
        while not re.search(drawn, seen, re.DOTALL) and time.monotonic() < deadline:
            if select.select([master], [], [], 1)[0]:
                seen += os.read(master, 1 << 16)
            if seen.count(b"\x1b[c") > told:  # the last query; with Sixel, the app also asks for the colours
                told += 1
                os.write(master, answers if told == 1 else b"\x1b[?1;0;256S\x1b[?63;4c")
        assert re.search(drawn, seen, re.DOTALL)
        assert seen.index(b"frn-tui") < seen.index(b"\x1b[c")  # the app asks after the first paint
        assert seen.count(b"\x1b[>0q") == 1
        assert app.poll() is None
    finally:
        app.kill()
        app.wait()
        os.close(master)


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
