"""Every JSON that a test lets `frn` print is what its schema says."""

import json
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from frn.cli.shell.schemas import RESULTS


def is_described(value: Any, command: str) -> bool:
    """Return whether a value is what a command's JSON is said to be."""
    for kind in RESULTS[command]:
        try:
            msgspec.convert(value, kind, str_keys=True)
        except msgspec.ValidationError:
            continue
        return True
    return False


@pytest.fixture(autouse=True)
def json_as_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what commands print with their schemas."""
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
