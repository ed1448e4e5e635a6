"""Messages to a child process and back are unchanged, for any file name."""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from frn.projects.session import ClassEntry, State, Support
from frn.system.processes.messages import convert, decode, encode, read, write

NAMES = ["a.jpg", "two words.png", os.fsdecode(b"caf\xe9.jpg"), "line\nbreak.jpg", "\x1b[31mred.png", "\u202egnp.exe"]
STATE = State(
    (
        ClassEntry(3, "jay", tuple(Support(Path("/x") / name, name.encode().hex(), 5, 7) for name in NAMES[:2])),
        ClassEntry(9, "[bold]wren[/]", tuple(Support(Path("/y") / n, f"k{i}", 1, 2**62) for i, n in enumerate(NAMES))),
        ClassEntry(4, "empty"),
    ),
    0.25,
    17,
)


@pytest.mark.parametrize("state", [State(), STATE, State(STATE.classes, None, 99)])
def test_state_is_unchanged_by_a_round_trip(state: State) -> None:
    line = encode({"state": state})
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert convert(decode(line)["state"], State) == state


@dataclass(frozen=True, slots=True)
class Cells:
    data: bytes
    at: tuple[int, int] = (0, 0)


def test_bytes_and_tuples_are_unchanged_by_a_round_trip() -> None:
    cells = Cells(bytes(range(256)), (3, 4))
    assert convert(decode(encode({"cells": cells}))["cells"], Cells) == cells


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"classes": [{}], "threshold": None, "next_id": 1},
        {"classes": [], "threshold": "much", "next_id": 1},
        {"classes": 5, "threshold": None, "next_id": 1},
        {"classes": [], "threshold": None, "next_id": 1e999},
        {"classes": [{"id": 1e999, "name": "x", "supports": []}], "threshold": None, "next_id": 2},
    ],
)
def test_invalid_state_is_refused_with_its_location(document: object) -> None:
    with pytest.raises(ValueError, match=r"Expected|missing"):
        convert(document, State)


@pytest.mark.parametrize("line", [b"", b"hello\n", b"[1]\n", b'"x"\n', b"\xff\xfe\n", b'{"a": \n'])
def test_invalid_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not (JSON|an object): "):
        decode(line)


def test_unsupported_object_is_refused() -> None:
    with pytest.raises(TypeError, match="not object"):
        encode({"what": object()})


def test_bytes_follow_their_message_on_the_wire() -> None:
    pipe = io.BytesIO()
    for blobs in ([b"abc", b"", b"\n{}"], []):
        write(pipe, {"n": len(blobs)}, blobs)
    pipe.seek(0)
    assert read(pipe) == ({"n": 3}, [b"abc", b"", b"\n{}"])
    assert read(pipe) == ({"n": 0}, [])
    with pytest.raises(EOFError):
        read(pipe)


@pytest.mark.parametrize("lengths", ["", '"blobs": [-1]', '"blobs": ["3"]', '"blobs": [1e9]', '"blobs": [99999999999]'])
def test_impossible_lengths_are_refused(lengths: str) -> None:
    with pytest.raises(ValueError, match="lengths"):
        read(io.BytesIO(f"{{{lengths}}}\n".encode()))


def test_truncated_bytes_end_the_stream() -> None:
    with pytest.raises(EOFError):
        read(io.BytesIO(b'{"blobs": [5]}\nabc'))
