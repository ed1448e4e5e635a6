"""CSV: complete rows, no live formulas. JSON: no terminal control codes."""

import csv
import io
import json
import sys

import pytest

from frn.cli.shell.console import print_json
from frn.system.csv_rows import csv_row

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
