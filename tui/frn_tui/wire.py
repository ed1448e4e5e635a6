"""Messages as lines and back; requests are checked against their types in `protocol`. Standard library only."""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

from frn_tui.protocol import REQUESTS, Request


class ProtocolError(Exception):
    """A line that is no message, or a message that is no request."""


def encode(message: object) -> bytes:
    """One message as a line. ASCII only, so lone surrogates survive and nothing in it ends the line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """A line as a message; raises ProtocolError if it is no JSON object."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ProtocolError(f"no JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"no object: {line[:80]!r}")
    return message


def parse(message: Mapping[str, object]) -> Request[Any]:
    """The request that a message holds.

    Raises:
        ProtocolError: if there is no such operation, or an argument is missing or of another type.
    """
    op = message.get("op")
    kind = REQUESTS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise ProtocolError(f"there is no operation {op!r}")
    hints = get_type_hints(kind)
    arguments = {}
    for field in fields(kind):  # type: ignore[arg-type]  # every request is a dataclass
        value = message.get(field.name, field.default)
        if value is MISSING:
            raise ProtocolError(f"{op}: {field.name!r} is missing")
        if not _fits(value, hints[field.name]):
            raise ProtocolError(f"{op}: {field.name!r} should be {_described(hints[field.name])}, not {value!r:.80}")
        arguments[field.name] = value
    return kind(**arguments)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type; what is in a TypedDict is checked where it is used."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value)
    if origin is dict or is_typeddict(hint):
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values() if inner)
    return type(value) is hint  # so that True is no number


def _described(hint: Any) -> str:
    names = {str: "text", int: "a whole number", bool: "true or false"}
    return names.get(hint) or re.sub(r"\b(typing|frn_tui\.\w+)\.", "", str(hint))
