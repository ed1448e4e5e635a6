"""What all commands share: help, results, exit codes, completion, options."""

import ast
import csv
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from frn_tui.main import build_parser

from frn.cli.shell.help import EXAMPLES
from frn.cli.shell.schemas import RESULTS, schema
from tests import processes
from tests.commands import COMMAND, frn, is_described
from tests.drawings import MOTHS, PHOTO

COMMAND_LINE = (Path(__file__).parents[3] / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every command by its words, such as `models add`, and the groups."""
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*words, name))


COMMANDS = dict(walk(COMMAND))
every_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


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


def test_every_command_with_a_result_has_a_schema() -> None:
    """Every test that calls such a command compares its output with the schema (`tests/frn/conftest.py`)."""
    options = {
        " ".join(words): {option for parameter in command.params for option in parameter.opts}
        for words, command in COMMANDS.items()
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


@every_command
def test_help_is_at_most_80_columns_wide_and_does_not_wrap_too_early(words: tuple[str, ...]) -> None:
    """A line ends too early if the first word of the next line would still fit."""
    shown = frn(*words, "--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
    assert not any("<bool>" in line for line in lines), "flags take no value"
    prose = lines[: next(i for i, line in enumerate([*lines, "╭"]) if line.startswith("╭"))]
    for line, following in pairwise(prose):
        if line and following:
            assert len(line) + 1 + len(following.split()[0]) > 79, f"{line!r} breaks before {following!r}"


@every_command
def test_every_option_help_is_under_60_characters(words: tuple[str, ...]) -> None:
    ours = [each for each in COMMANDS[words].params if each.name != "show_completion"]  # this text comes from Typer
    for parameter in ours:
        text = getattr(parameter, "help", None) or ""
        assert len(text) < 60, f"{parameter.name}: {text}"


def test_every_option_help_of_the_app_is_under_60_characters() -> None:
    texts = [re.sub(r" \(default: .*\)", "", action.help or "") for action in build_parser()._actions]
    assert [text for text in texts if len(text) >= 60] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_ends_with_examples_that_parse(name: str) -> None:
    shown = frn(name, "--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
    assert [line.strip() for line in shown.splitlines() if line.strip()][-len(EXAMPLES[name]) :] == [*EXAMPLES[name]]
    for example in EXAMPLES[name]:
        program, command, *arguments = shlex.split(example)
        assert (program, command) == ("frn", name)
        COMMAND.commands[name].make_context(name, arguments, resilient_parsing=False)


TAKEN_BY_NAME = "locals"  # function through which a command passes on all of its parameters by name
ALWAYS = {("export", "onnx"): "ONNX is always written; the flag says so"}


@pytest.mark.parametrize(
    "words", [words for words, command in COMMANDS.items() if words and command.callback], ids=" ".join
)
def test_every_parameter_is_read_by_its_command(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    function = inspect.unwrap(command.callback)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    read = {node.id for part in definition.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    if TAKEN_BY_NAME in read:
        return
    dropped = {each.name for each in command.params if each.name != "help"} - read
    assert {option for option in dropped if (" ".join(words), option) not in ALWAYS} == set()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("train demo --data nowhere", "--data has no effect"),
        ("classify CLASSES PHOTO --resume", "--resume"),
        ("classify CLASSES PHOTO --replace", "--replace only applies to --out, --report and --crops"),
        ("score CLASSES CLASSES --replace", "--replace only applies to --out and --report"),
        ("classify MOTHS PHOTO --threshold 0.3 --false-rejections 0.1", "--threshold sets the threshold"),
        ("data prepare cub-raw --source . --out x --val 0.3", "--val and --test are for your own folder"),
        ("export --out x --examples", "--examples only applies to --web"),
        ("export --out x --threshold 0.3", "--threshold"),
        ("export --out x --calibrate y", "--calibrate is for --precision int8"),
        ("export --out x --max-drop 2", "--max-drop only applies to --precision int8"),
        ("export --web x --calibrate y", "Remove --precision, --calibrate"),
    ],
)
def test_options_without_effect_are_refused(words: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x.jpg").touch()
    places = {"CLASSES": tmp_path, "PHOTO": tmp_path / "x.jpg", "MOTHS": MOTHS}
    given = [str(places.get(word, word)) for word in words.split()]
    told = frn(*given)
    assert told.exit_code in (1, 2)
    assert reason in told.stderr
