"""A state survives the way to the engine and back, whatever its files are called."""

import json
import os
from pathlib import Path

import pytest
from frn_tui.client.protocol import ProtocolError, decode, encode
from frn_tui.client.serialization import state_from_json, state_to_json, support_from_json

from frn.errors import FrnError
from frn.inference.session import ClassEntry, State, Support

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
def test_a_state_comes_back_as_it_was(state: State) -> None:
    line = encode({"state": state_to_json(state)})
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert state_from_json(decode(line)["state"]) == state


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"classes": [], "threshold": None},
        {"classes": [{}], "threshold": None, "next_id": 1},
        {"classes": [], "threshold": "much", "next_id": 1},
        {"classes": 5, "threshold": None, "next_id": 1},
    ],
)
def test_what_is_no_state_is_refused_in_words(document: object) -> None:
    with pytest.raises(FrnError, match="these are no classes"):
        state_from_json(document)


def test_a_photo_is_read_from_an_event_with_more_in_it() -> None:
    event = {"event": "embedded", "path": "/x/a.jpg", "key": "k", "size": 5, "mtime_ns": 7}
    assert support_from_json(event) == Support(Path("/x/a.jpg"), "k", 5, 7)


@pytest.mark.parametrize("line", [b"", b"hello\n", b"[1]\n", b'"x"\n', b"\xff\xfe\n", b'{"a": \n'])
def test_a_line_that_is_no_message_is_told_apart(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line)


@pytest.mark.parametrize("field", ["next_id", "id"])
def test_a_number_that_no_state_has_is_refused(field: str) -> None:
    state = {"classes": [{"id": 1, "name": "x", "supports": []}], "threshold": None, "next_id": 2}
    text = json.dumps(state).replace(f'"{field}": ', f'"{field}": 1e999')
    with pytest.raises(FrnError, match="these are no classes"):
        state_from_json(json.loads(text))
