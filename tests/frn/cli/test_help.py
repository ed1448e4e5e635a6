"""The output of `--help` for every command."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import typer
from frn_tui.main import build_parser

from frn.cli.main import app
from frn.cli.shell.help import EXAMPLES
from tests.commands import frn

ROOT: Any = typer.main.get_command(app)


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*words, name))


COMMANDS = dict(walk(ROOT))
every_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


@every_command
def test_help_is_at_most_80_columns_wide_and_does_not_wrap_too_early(words: tuple[str, ...]) -> None:
    """A line ends too early if the first word of the next line would still fit."""
    shown = frn(*words, "--help", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines)) <= 80
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
        ROOT.commands[name].make_context(name, arguments, resilient_parsing=False)
