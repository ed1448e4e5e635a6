"""Every JSON value that `frn` prints in a test must match its schema."""

import json
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from frn.cli.shell.schemas import RESULTS


def is_described(value: Any, command: str) -> bool:
    """Return whether a value matches the schema of a command's JSON."""
    for kind in RESULTS[command]:
        try:
            msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError:
            continue
        return True
    return False


@pytest.fixture(autouse=True)
def json_as_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the output of all commands with their schemas."""
    invoke = CliRunner.invoke

    def invoke_and_compare(self: CliRunner, app: Any, args: Any = None, *more: Any, **options: Any) -> Result:
        result = invoke(self, app, args, *more, **options)
        words = list(map(str, args or ()))
        name = next((name for name in (" ".join(words[:2]), *words[:1]) if name in RESULTS), None)
        if name and ("--json" in words or "json" in words[1:]):
            for line in result.stdout.splitlines():
                assert is_described(json.loads(line), name), line
        return result

    monkeypatch.setattr(CliRunner, "invoke", invoke_and_compare)
