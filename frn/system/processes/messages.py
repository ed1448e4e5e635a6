"""Messages between processes of this program: a line of JSON followed by plain bytes.

Only JSON and bytes cross a pipe, so the worst that a compromised process can do is give a wrong answer. Lines are
ASCII: names that are not UTF-8 survive as lone surrogates, and no character in a message ends its line. Dataclasses are
sent as objects.
"""

import json
import os
from collections.abc import Mapping, Sequence
from typing import IO, Any, TypeVar

Message = dict[str, Any]
Kind = TypeVar("Kind")

MAX_MESSAGE_BYTES = 4 << 30  # size limit of a message in bytes; larger claims are rejected


def encode(message: Mapping[str, object]) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps(message, separators=(",", ":"), default=_plain).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """Return the message in a line. Raises ValueError if the line is not a JSON object."""
    try:
        message = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {line[:80]!r}") from error
    if not isinstance(message, dict):
        raise ValueError(f"not an object: {line[:80]!r}")
    return message


def convert(data: object, kind: type[Kind]) -> Kind:
    """Return JSON data as a dataclass or another type. Raises ValueError with the part that does not fit."""
    import msgspec  # imported here because the app sends no request before its first paint

    try:
        return msgspec.convert(data, kind, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def write(pipe: IO[bytes], message: Message, blobs: Sequence[bytes] = ()) -> None:
    """Write a message, and after it the bytes that belong to it."""
    pipe.write(encode({**message, "blobs": [len(blob) for blob in blobs]}))
    for blob in blobs:
        pipe.write(blob)
    pipe.flush()


def read(pipe: IO[bytes]) -> tuple[Message, list[bytes]]:
    """Read a message and its bytes. Raises EOFError at the end of the pipe, ValueError if the data is not a message."""
    if not (line := pipe.readline(MAX_MESSAGE_BYTES)):
        raise EOFError("the pipe ended")
    message = decode(line)
    lengths = message.pop("blobs", None)
    if not isinstance(lengths, list) or not all(isinstance(n, int) and 0 <= n <= MAX_MESSAGE_BYTES for n in lengths):
        raise ValueError("a message lacks the lengths of its binary data")
    blobs = [pipe.read(length) for length in lengths]
    if [len(blob) for blob in blobs] != lengths:
        raise EOFError("the pipe ended")
    return message, blobs


def _plain(value: object) -> object:
    import msgspec

    return msgspec.to_builtins(value, enc_hook=os.fspath)
