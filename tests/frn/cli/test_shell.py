"""Shell conventions: help, exit codes, JSON schemas, lists on stdin, defaults, completion, no colours."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from frn.cli.main import app
from frn.cli.shell.schemas import RESULTS, schema
from tests import processes
from tests.commands import frn, is_described
from tests.drawings import DRAWINGS

MOTHS, QUERIES = DRAWINGS / "moths", DRAWINGS / "queries"
PHOTO = QUERIES / "eyed footman 6.jpg"
COMMAND_LINE = (Path(__file__).parents[3] / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder and an empty configuration, without the user's frn.toml."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_result_types_reject_wrong_values() -> None:
    right = json.loads(frn("enroll", MOTHS, "--out", "m.frn.json", "--model", "conv4", "--json").stdout)
    assert is_described(right, "enroll")
    for wrong in ({**right, "more": 1}, {**right, "skipped": -1}, {**right, "skipped": True}, {"project": "x"}):
        assert not is_described(wrong, "enroll")


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Return every command by its name, such as `models add`."""
    for name, command in getattr(group, "commands", {}).items():
        yield f"{above}{name}", command
        yield from commands(command, f"{above}{name} ")


def test_every_command_with_a_result_has_a_schema() -> None:
    """Every test that calls such a command compares its output with the schema (`tests/frn/conftest.py`)."""
    options = {
        name: {word for parameter in command.params for word in parameter.opts}
        for name, command in commands(typer.main.get_command(app))
    }
    with_json = {name for name, words in options.items() if "--json" in words}
    assert with_json == RESULTS.keys()
    assert ", ".join(RESULTS) in " ".join(COMMAND_LINE.split())


@pytest.mark.parametrize(
    "words",
    [
        ("classify", MOTHS, PHOTO, "missing.jpg"),
        ("enroll", MOTHS, "--out", "m.frn.json", "--model", "conv4"),
        ("explain", MOTHS, PHOTO, "--out", "m.png", "--model", "conv4"),
        ("models",),
        ("presets",),
        ("presets", "demo"),
        ("reproduce",),
    ],
)
def test_result_is_printed_as_a_table_or_json(words: tuple[object, ...]) -> None:
    table = frn(*words)
    value = frn(*words, *(("--replace",) if words[0] == "enroll" else ()), "--json")
    assert table.exit_code == value.exit_code
    assert all(isinstance(json.loads(line), dict | list) for line in value.stdout.splitlines())
    assert table.stdout != value.stdout


def test_rows_have_the_columns_of_the_head(tmp_path: Path) -> None:
    frn("classify", MOTHS, PHOTO, "missing.jpg", "--out", tmp_path / "x.csv")
    rows = list(csv.reader((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()))
    head = "image,label,probability,known,unknown,explained,example_of,near_copy_of,error"
    assert ",".join(rows[0]).startswith(f"{head},probability of ")
    assert {len(row) for row in rows} == {len(rows[0])}
    assert rows[2][8].endswith("cannot be read (No such file or directory)")


def test_answers_are_printed_as_they_are_classified() -> None:
    """The reader of a pipe receives the answer for the first photo before the second one is processed."""
    words = [sys.executable, "-m", "frn", "classify", MOTHS, *[PHOTO] * 2000, "--json"]
    with processes.started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["image"] == str(PHOTO)
        process.stdout.close()  # as `head -2` does in a pipe
        assert process.wait(processes.SECONDS) == 1
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_help_covers_every_command() -> None:
    assert "--threshold" in frn("help", "classify").stdout
    assert "--json" in frn("help", "data", "check").stdout
    assert json.loads(frn("help", "json", "eval").stdout) == schema("eval")
    assert json.loads(frn("help", "json", "data", "check").stdout) == schema("data check")
    assert frn("help", "nothing").exit_code == 2


def test_exit_codes_match_the_table(tmp_path: Path) -> None:
    text = tmp_path / "text.jpg"
    text.write_text("no photo")
    stated = [int(code) for code in re.findall(r"^\| (\d+) \|", COMMAND_LINE, re.MULTILINE)]
    assert stated == [0, 1, 2, 3, 130]  # 130: tests/frn/cli/test_commands.py
    assert frn("classify", MOTHS, PHOTO).exit_code == 0
    assert frn("classify", MOTHS, PHOTO, text).exit_code == 1
    assert frn("classify", MOTHS, PHOTO, "--top", 0).exit_code == 2
    assert frn("nothing").exit_code == 2


def test_photo_names_are_read_from_stdin(tmp_path: Path) -> None:
    odd = tmp_path / "new\nline.jpg"
    odd.write_bytes(PHOTO.read_bytes())
    by_lines = frn("classify", MOTHS, "-", "--json", stdin=os.fsencode(PHOTO) + b"\n\n")
    assert [json.loads(line)["image"] for line in by_lines.stdout.splitlines()] == [str(PHOTO)]
    by_nul = frn("classify", MOTHS, PHOTO, "-", "--json", stdin=os.fsencode(odd) + b"\0" + os.fsencode(PHOTO) + b"\0")
    assert [json.loads(line)["image"] for line in by_nul.stdout.splitlines()] == [str(PHOTO), str(odd), str(PHOTO)]
    nothing = frn("classify", MOTHS, "-", stdin=b"\n")
    assert (nothing.exit_code, nothing.stderr) == (1, "error: -: stdin lists no photos. Give one per line.\n")


@pytest.mark.parametrize(
    ("shell", "typed", "expected"),
    [
        ("bash", "frn classify --model re", "resnet12-small"),
        ("zsh", "frn cla", "classify"),
        ("fish", "frn train cifar-fs-conv4-s", "cifar-fs-conv4-short"),
    ],
)
def test_shell_completion_completes_commands_and_options(shell: str, typed: str, expected: str) -> None:
    words = typed.split()
    variables = {
        "_FRN_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-c", "import sys; sys.argv = ['frn']; from frn.__main__ import run; run()"]
    result = processes.run(command, env={**os.environ, **variables})
    assert expected in result.stdout, result.stderr


def test_colours_are_used_only_in_terminals_that_allow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[[\d;]*3[0-7]")
    assert "\x1b" not in frn("classify", MOTHS, PHOTO).stdout
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert colour.search(frn("classify", MOTHS, PHOTO).stdout)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(frn("classify", MOTHS, PHOTO).stdout)
