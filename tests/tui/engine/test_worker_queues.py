"""Jobs in their order, and the start, priority and log of the engine."""

import io
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from frn_tui.client.protocol import INTERNAL, parse
from frn_tui.engine.worker_queues import Job, Server, WorkerQueue, serve

from frn.errors import FrnError
from frn.system.processes.messages import decode

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


def test_request_cancelled_before_its_turn_is_not_handled() -> None:
    sent: list[Any] = []
    job = Job(3, REQUEST, sent.append)
    job.cancelled.set()
    serve(lambda request, job: pytest.fail("handled"), job)
    assert sent == [{"id": 3, "end": "cancelled"}]


def test_queue_handles_one_job_after_the_other_and_closes_without_waiting_for_them() -> None:
    gate, begun, running = threading.Event(), threading.Event(), []
    most = []

    def handle(request: object, job: Job) -> None:
        running.append(job.number)
        most.append(len(running))
        begun.set()
        gate.wait(5)
        running.remove(job.number)

    sent: list[Any] = []
    queue = WorkerQueue("files", {"list": handle})
    jobs = [Job(number, REQUEST, sent.append) for number in range(3)]
    for job in jobs:
        queue.submit(job)
    assert begun.wait(5)
    queue.cancel(2)
    assert sent == [{"id": 2, "end": "cancelled"}]
    assert [job.cancelled.is_set() for job in jobs] == [False, False, True]
    queue.cancel(0)  # it is running, and sends its own end
    began = time.monotonic()
    queue.close(0.05)
    assert 0.04 < time.monotonic() - began < 3
    assert jobs[0].cancelled.is_set()
    gate.set()
    queue._pool.shutdown(wait=True)
    assert most == [1]
    assert [message["id"] for message in sent] == [2, 0]
    assert not queue._jobs  # they are forgotten


def test_server_ignores_garbage_and_gives_running_jobs_150_ms_to_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed: list[float] = []
    pipe = io.BytesIO()
    engine = Server({}, pipe)
    for queue in engine._queues.values():
        monkeypatch.setattr(queue, "close", closed.append)
    engine.run([b"garbage\n", b'{"id": 4, "op": "nonsense"}\n'])
    assert "ignored: not JSON" in capsys.readouterr().err
    assert decode(pipe.getvalue()) == {
        "id": 4, "end": "failed", "reason": "unknown operation 'nonsense'", "code": ""
    }  # fmt: skip
    assert closed == [0.15] * len(engine._queues)


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
