"""Messages as lines and back, and as requests."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

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
        ProtocolError: if there is no such operation, or its arguments are others.
    """
    op = message.get("op")
    kind = REQUESTS.get(op) if isinstance(op, str) else None
    if kind is None:
        raise ProtocolError(f"there is no operation {op!r}")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every request is a dataclass
    try:
        return kind(**{name: message[name] for name in names if name in message})
    except TypeError as error:
        raise ProtocolError(f"{op}: {error}") from error
