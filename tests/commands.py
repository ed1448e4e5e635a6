"""Runs `frn` in this process."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import pytest
import typer.main
from typer.testing import CliRunner, Result

from frn.cli.main import app
from frn.cli.shell.schemas import RESULTS

get_command = cache(typer.main.get_command)  # building takes longer than most commands that fail
pytest.MonkeyPatch().setattr("typer.testing._get_command", get_command)
COMMAND: Any = get_command(app)


def frn(*words: object, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
    """Run a command; every JSON value that it prints must match its schema."""
    arguments = [str(word) for word in words]
    result = CliRunner().invoke(app, arguments, input=stdin, env=env, catch_exceptions=False)
    name = next((name for name in (" ".join(arguments[:2]), *arguments[:1]) if name in RESULTS), None)
    if name and ("--json" in arguments or "json" in arguments[1:]):
        for line in result.stdout.splitlines():
            assert is_described(json.loads(line), name), line
    return result


def is_described(value: Any, command: str) -> bool:
    """Return whether a value matches the schema of a command's JSON."""
    for kind in RESULTS[command]:
        try:
            msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError:
            continue
        return True
    return False
