"""Jobs in their order, and the start, priority and log of the engine."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import INTERNAL, REQUESTS, parse
from frn_tui.engine import worker_queues
from frn_tui.engine.worker_queues import Job, Server, serve

from frn.errors import FrnError
from frn.system.processes.messages import decode, encode

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
