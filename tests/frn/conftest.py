"""Every JSON that a test lets `frn` print is what its schema says."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from frn.cli.shell.schemas import SCHEMAS


def _violations(value: Any, schema: dict[str, Any], where: str = "$") -> Iterator[str]:
    """Where a value is not of a schema; of JSON Schema only what `frn.cli.shell.schemas` uses."""
    if "oneOf" in schema:
        if not any(not list(_violations(value, each)) for each in schema["oneOf"]):
            yield f"{where}: is none of the alternatives"
        return
    kinds = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
        "array": list,
        "object": dict,
    }
    allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_bool = isinstance(value, bool)
    if not any(isinstance(value, kinds[kind]) and is_bool == (kind == "boolean") for kind in allowed):  # type: ignore[arg-type]
        yield f"{where}: {value!r} is no {allowed}"
    elif isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{where}: {value} is out of range"
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _violations(entry, schema["items"], f"{where}[{index}]")
    elif isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        yield from (f"{where}: lacks {name}" for name in schema.get("required", []) if name not in value)
        for name, entry in value.items():
            if name in properties:
                yield from _violations(entry, properties[name], f"{where}.{name}")
            elif others is False:
                yield f"{where}: has {name}, which is not described"
            elif others:
                yield from _violations(entry, others, f"{where}.{name}")


@pytest.fixture
def violations() -> Callable[[Any, dict[str, Any]], Iterator[str]]:
    """Where a value is not of a schema."""
    return _violations


@pytest.fixture(autouse=True)
def json_as_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what commands print with their schemas."""
    invoke = CliRunner.invoke

    def invoke_and_compare(self: CliRunner, app: Any, args: Any = None, *more: Any, **options: Any) -> Result:
        result = invoke(self, app, args, *more, **options)
        words = list(map(str, args or ()))
        name = next((name for name in (" ".join(words[:2]), *words[:1]) if name in SCHEMAS), None)
        if name and ("--json" in words or "json" in words[1:]):
            for line in result.stdout.splitlines():
                assert list(_violations(json.loads(line), SCHEMAS[name])) == [], name
        return result

    monkeypatch.setattr(CliRunner, "invoke", invoke_and_compare)
