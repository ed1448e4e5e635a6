"""Answers from a terminal are removed from typed keys, and determine how images are drawn."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from frn_tui.terminal.terminal import Answers, pixels_of

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
