"""Every parameter of every command is used; combinations that have no effect are refused."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from frn.cli.main import app
from tests.commands import frn
from tests.drawings import DRAWINGS

TAKEN_BY_NAME = "locals"  # function through which a command passes on all of its parameters by name
ALWAYS = {("export", "onnx"): "ONNX is always written; the flag says so", ("main", "version"): "its callback prints"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_is_read_by_its_command(name: str) -> None:
    function = inspect.unwrap(COMMANDS[name].callback)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    read = {node.id for part in definition.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    if TAKEN_BY_NAME in read:
        return
    dropped = {p.name for p in COMMANDS[name].params if p.name != "help"} - read
    assert {option for option in dropped if (name, option) not in ALWAYS} == set()


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
    places = {"CLASSES": tmp_path, "PHOTO": tmp_path / "x.jpg", "MOTHS": DRAWINGS / "moths"}
    given = [str(places.get(word, word)) for word in words.split()]
    told = frn(*given)
    assert told.exit_code in (1, 2)
    assert reason in told.stderr
