"""Work in a child process with limits."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from frn.errors import FrnError
from frn.system.processes.sandbox import SandboxedWorker, WorkerKilledError

HANDLERS = """
import ctypes, itertools, os
from frn.errors import FrnError

def answer(question, blobs):
    match question["do"]:
        case "echo":
            return {"got": question["word"], "pid": os.getpid()}, [blob[::-1] for blob in blobs]
        case "refuse":
            raise FrnError("x.bin: is no good")
        case "stumble":
            raise ZeroDivisionError("two\\nlines")
        case "print":
            print("not an answer", flush=True)
            return {}, ()
        case "loop in C":
            return {"sum": sum(itertools.repeat(0))}, ()
        case "take":
            return {}, (bytes(question["bytes"]),)
        case "crash":
            ctypes.string_at(0)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SandboxedWorker]:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(tmp_path)
    child = SandboxedWorker("handlers:answer", 256 << 20)
    yield child
    child.close()


def echo(child: SandboxedWorker, word: object = "") -> int:
    answer, blobs = child.ask({"do": "echo", "word": word}, [b"abc", b"", b"12"], 60)
    assert (answer["got"], blobs) == (word, [b"cba", b"", b"21"])
    return int(answer["pid"])


def test_child_answers_repeatedly_until_it_is_killed(child: SandboxedWorker) -> None:
    first = echo(child, "caf\udce9 ü")
    assert first == echo(child) != os.getpid()
    child.ask({"do": "print"}, [], 60)
    with pytest.raises(FrnError, match=r"^x\.bin: is no good$"):
        child.ask({"do": "refuse"}, [], 60)
    with pytest.raises(WorkerKilledError, match=r"^failed \(two lines\)$"):
        child.ask({"do": "stumble"}, [], 60)
    with pytest.raises(WorkerKilledError, match="took more than 256 MiB of memory"):
        child.ask({"do": "take", "bytes": 400 << 20}, [], 60)
    assert echo(child) == first
    with pytest.raises(WorkerKilledError, match="exited without an answer"):
        child.ask({"do": "crash"}, [], 60)
    second = echo(child)
    began = time.monotonic()
    with pytest.raises(WorkerKilledError, match=r"took longer than 0\.4 s"):
        child.ask({"do": "loop in C"}, [], 0.4)
    assert time.monotonic() - began < 5
    assert len({first, second, echo(child)}) == 3
