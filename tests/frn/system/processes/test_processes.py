"""Locks between programs, supervised children, and the messages to them."""

import io
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from frn.errors import FrnError, FrnWarning
from frn.projects.session import ClassEntry, State, Support
from frn.system.processes import locks
from frn.system.processes.locks import Lock, lock
from frn.system.processes.messages import convert, decode, encode, read, write
from frn.system.processes.sandbox import SandboxedWorker, WorkerKilledError
from frn.training.runs.run import RunFolder
from tests.forks import ended, fork


def test_only_one_of_many_waiting_threads_holds_the_lock(tmp_path: Path) -> None:
    inside: list[int] = []

    def work(number: int) -> int:
        most = 0
        for _ in range(5):
            with lock(tmp_path / "lock", "x"):
                inside.append(number)
                time.sleep(0.0005)
                most = max(most, len(inside))
                inside.pop()
        return most

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {1}
    assert list(tmp_path.iterdir()) == []


def test_a_waiting_writer_names_the_lock_holder_and_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WARN_AFTER", 0.05)
    held = Lock(tmp_path / "lock")
    assert held.acquire()
    told = rf"birds: .*process {os.getpid()} \(.*writing this file"
    with (
        pytest.warns(FrnWarning, match=told),
        pytest.raises(FrnError, match=told),
        lock(tmp_path / "lock", "birds", give_up_after=0.2),
    ):
        pytest.fail("entered")
    held.release()
    with warnings.catch_warnings(), lock(tmp_path / "lock", "birds"):
        warnings.simplefilter("error")


def test_file_system_without_locks_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import filelock

    def refuse(*_: object, **__: object) -> None:
        raise OSError(locks.NO_LOCKS[0], "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with lock(tmp_path / "lock", "x"), lock(tmp_path / "lock", "x"):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_run_folder_belongs_to_one_process(tmp_path: Path) -> None:
    read, write = os.pipe()
    done, end = os.pipe()
    folder = RunFolder(tmp_path / "run")

    def hold() -> None:
        os.close(end)
        folder.claim()
        os.write(write, b"y")
        os.read(done, 1)

    process = fork(hold)
    os.close(write)
    assert os.read(read, 1) == b"y"
    with pytest.raises(FrnError, match=rf"process {process} \(.*is already training there"):
        folder.claim()
    os.close(end)
    os.close(done)
    assert ended(process) == 0
    folder.claim()
    RunFolder(tmp_path / "run").claim()  # this process already holds the lock
    folder.release()
    assert ended(fork(folder.claim)) == 0
    os.close(read)


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
