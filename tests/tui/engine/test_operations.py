"""Requests, models and queues of the engine, and its log."""

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from frn_tui.client.protocol import INTERNAL, MIRROR, REQUESTS, OpenModel, Request, parse
from frn_tui.engine import worker_queues
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job, Server, serve

from frn.errors import FrnError
from frn.system.processes.messages import decode, encode
from tests.tui.engine.conftest import Engine, Message, Unwanted, first


def test_every_operation_of_the_protocol_is_implemented(bare: Engine) -> None:
    assert set(bare.handlers) == set(REQUESTS)


@pytest.mark.parametrize("op", ["embed", "query", "classes", "export", "save"])
def test_request_without_a_model_asks_for_one(bare: Engine, op: str, tmp_path: Path) -> None:
    state: Message = {"classes": [], "threshold": None, "next_id": 1}
    asked = bare.ask(op, paths=["a"], state=state, shot=1, path=str(tmp_path / "x.frn.json"))
    assert "no model is loaded" in asked.reason


@pytest.mark.parametrize("op", sorted(set(REQUESTS) - {"recover", "settle"}))
def test_missing_arguments_are_reported(engine: Engine, op: str) -> None:
    assert engine.ask(op).end["end"] == "failed"
    assert "internal error" not in engine.ask(op).reason


def test_unusable_model_leaves_the_old_one_open(engine: Engine, tmp_path: Path) -> None:
    engine.done("open_model", model="conv4")
    (tmp_path / "x.safetensors").touch()
    assert "frn export --model" in engine.ask("open_model", model=str(tmp_path / "x.safetensors")).reason
    assert "no such file" in engine.ask("open_model", model=str(tmp_path / "x.onnx")).reason
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    assert "is not an ONNX file" in engine.ask("open_model", model=str(tmp_path / "junk.onnx")).reason
    assert engine.ask("embed", paths=[]).end["end"] == "done"


def test_queues_run_in_parallel_and_drop_cancelled_requests(
    until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Message] = []
    gate = threading.Event()

    def handle(request: Request[Any], job: Job) -> Message:
        if request.queue == "compute":
            gate.wait(5)
        return {}

    server = Server(dict.fromkeys(REQUESTS, handle), io.BytesIO())
    monkeypatch.setattr(server, "send", lambda message: sent.append(dict(message)))
    for number, op in ((1, "embed"), (2, "query"), (3, "query"), (4, "scan")):
        server.receive({"id": number, "op": op, "path": "/", "paths": []})
    server.receive({"op": "cancel", "target": 2})
    server.receive({"id": 5, "op": "nonsense"})
    until(lambda: len(sent) == 3)
    ends = {message["id"]: message["end"] for message in sent}
    assert ends == {2: "cancelled", 4: "done", 5: "failed"}
    gate.set()
    until(lambda: len(sent) == 5)
    assert [message["id"] for message in sent[3:]] == [1, 3]
    server.run([b"no message\n"])


@pytest.fixture
def until() -> Callable[..., None]:
    def until(holds: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(500):
            if holds():
                return
            pause.wait(0.01)
        raise AssertionError("it does not come")

    return until


@pytest.mark.parametrize(("available", "used"), [(1, 1), (2, 1), (4, 3)])
@pytest.mark.parametrize("model", ["conv4", f"conv4{MIRROR}"])
def test_the_engine_leaves_one_core_to_the_app(
    monkeypatch: pytest.MonkeyPatch, model: str, available: int, used: int
) -> None:
    monkeypatch.setattr("frn_tui.engine.models.cores", lambda: available)
    models = Models()
    models.open(OpenModel(model=model), MagicMock())
    assert models.extractor.threads == used


Requests = dict[str, tuple[str, dict[str, Any]]]


@pytest.fixture
def requests(engine: Engine, members: dict[str, list[Path]], tmp_path: Path) -> Requests:
    """Return an event, if there is one for each chunk, and the arguments of each operation that takes long."""
    few = {name: [str(path) for path in own] for name, own in first(members, 3).items()}
    state, paths = engine.state(first(members, 3)), [path for own in few.values() for path in own]
    engine.done("classes", state=state)
    engine.done("bundle", path=str(tmp_path / "b.zip"), state=state)
    return {
        "embed": ("embedded", {"paths": paths}),
        "classes": ("", {"state": state}),
        "query": ("answer", {"paths": paths}),
        "scan": ("", {"path": str(Path(paths[0]).parents[1])}),
        "stamp": ("", {"paths": paths}),
        "list": ("", {"path": str(Path(paths[0]).parents[1])}),
        "folders": ("", {"path": str(Path(paths[0]).parents[1])}),
        "relocate": ("", {"folder": str(Path(paths[0]).parents[1]), "sizes": {"0" * 32: 1}}),
        "bundle": ("progress", {"path": str(tmp_path / "new.zip"), "state": state}),
        "unpack": ("progress", {"path": str(tmp_path / "b.zip"), "folder": str(tmp_path / "new")}),
        "export": ("", {"path": str(tmp_path / "c.onnx")}),
        "preview": ("", {"path": paths[0], "columns": 4, "rows": 2}),
    }


def test_cancelled_request_ends_after_its_first_chunk(engine: Engine, requests: Requests, tmp_path: Path) -> None:
    for op, (event, arguments) in requests.items():
        if event:
            cancelled = engine.ask(op, cancel_at=event, **arguments)
            assert (cancelled.end["end"], len(cancelled.told(event))) == ("cancelled", 1), op
    assert [path.name for path in tmp_path.iterdir() if path.name in ("new", "new.zip", "c.onnx")] == []


def test_request_that_is_cancelled_before_its_first_chunk_does_nothing(
    engine: Engine, requests: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Models, "state_of", pytest.fail)
    for op, (_, arguments) in requests.items():
        messages: list[Mapping[str, object]] = []
        serve(engine.handlers[op], Unwanted(1, parse({"op": op, **arguments}), messages.append))
        assert messages == [{"id": 1, "end": "cancelled"}], op
    assert [path.name for path in tmp_path.iterdir() if path.name in ("new", "new.zip", "c.onnx")] == []


REQUEST = parse({"op": "list", "path": "/"})


def handler(error: Exception | None) -> Callable[[Any, Job], object]:
    def handle(request: object, job: Job) -> object:
        if error:
            raise error
        return {"a": 1}

    return handle


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, {"end": "done", "result": {"a": 1}}),
        (FrnError("two\nlines", code="x"), {"end": "failed", "reason": "two lines", "code": "x"}),
        (FrnError("y"), {"end": "failed", "reason": "y", "code": ""}),
        (KeyError("k"), {"end": "failed", "reason": "internal error: KeyError: 'k'", "code": INTERNAL}),
    ],
)
def test_every_request_gets_one_end(
    error: Exception | None, end: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(time, "strftime", lambda form: f"({form})")
    serve(handler(error), Job(3, REQUEST, sent.append))
    assert sent == [{"id": 3, **end}]
    told = capsys.readouterr().err
    assert told.startswith("(%Y-%m-%d %H:%M:%S) list:\nTraceback") == isinstance(error, KeyError)
    assert bool(told) == isinstance(error, KeyError)
    job = Job(4, REQUEST, sent.append)
    job.cancelled.set()  # while it waited
    serve(handler(error), job)
    assert sent[1:] == [{"id": 4, "end": "cancelled"}]


def test_jobs_stop_if_they_are_cancelled_or_the_app_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, stopped = threading.Semaphore(0), []
    monkeypatch.setattr(worker_queues, "wait", lambda futures, timeout: wait(futures, 10))

    def handle(request: object, job: Job) -> None:
        begun.release()
        try:
            for _ in range(1000):
                job.check()
                time.sleep(0.01)
        finally:
            stopped.append(job.number)

    def lines() -> Iterator[bytes]:
        for number in (1, 2):
            yield encode({"id": number, "op": "embed", "paths": []})
            assert begun.acquire(timeout=10)
            if number == 1:
                yield encode({"op": "cancel", "target": 1})
        yield b"no message\n"

    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "wb") as pipe:
        Server(dict.fromkeys(REQUESTS, handle), pipe).run(lines())
        ends = [decode(line) for line in os.read(reading, 1000).splitlines()]
    os.close(reading)
    assert stopped == [1, 2]
    assert ends == [{"id": number, "end": "cancelled"} for number in stopped]
    assert "ignored: " in capsys.readouterr().err


def test_engine_ends_with_status_1_if_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ends: list[int] = []

    def leave(status: int) -> None:
        ends.append(status)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", leave)
    pipe = os.fdopen(writing, "wb", buffering=0)
    with pytest.raises(SystemExit):
        Server({}, pipe).send({"event": "hello"})
    pipe.close()
    assert ends == [1]


def test_only_messages_go_to_the_pipe_and_everything_else_to_the_log(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from frn_tui.engine.worker_queues import redirect_stdout\n"
        "pipe = redirect_stdout(Path(sys.argv[1]))\n"
        "os.write(1, b'one '); os.write(2, b'two'); pipe.write(b'a message'); pipe.flush()"
    )
    log = tmp_path / "deep" / "engine.log"
    found = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=True)
    assert (found.stdout, found.stderr, log.read_bytes()) == (b"a message", b"", b"one two")
    log.write_bytes(bytes(1 << 20))
    subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=True)
    assert log.stat().st_size == (1 << 20) + 7
    subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=True)
    assert log.read_bytes() == b"one two"  # the log is restarted once it exceeds 1 MiB
    assert log.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other name"
    other.hardlink_to(log)
    subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=True)
    assert log.read_bytes() == other.read_bytes() == b"one two"  # nothing is written under another name
