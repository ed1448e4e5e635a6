"""Jobs in their order, the greeting, heartbeats and the log of the engine."""

import contextlib
import faulthandler
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from frn_tui.client.protocol import INTERNAL, PROTOCOL_VERSION, parse
from frn_tui.engine import __main__ as start
from frn_tui.engine.pipes import Sender, _open_log
from frn_tui.engine.server import Server
from frn_tui.engine.worker_queues import Job, WorkerQueue, serve

from frn.errors import FrnError

REQUEST = parse({"op": "list", "path": "/"})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_every_sign_of_life_counts_as_progress(clock: list[float]) -> None:
    sent: list[Any] = []
    job = Job(7, REQUEST, sent.append)
    actions: list[Callable[[], None]] = [job.check, lambda: job.event("x", {"a": 1}), lambda: job.progress(2, 3)]
    for action in actions:
        clock[0] += 5
        action()
        assert job.last_progress == clock[0]
    assert sent == [{"id": 7, "event": "x", "a": 1}, {"id": 7, "event": "progress", "done": 2, "total": 3}]


def test_waiting_does_not_count_as_silence(clock: list[float]) -> None:
    found = []
    queue = WorkerQueue("files", {"list": lambda request, job: found.append(queue.quiet_for())})
    job = Job(1, REQUEST, lambda message: None)
    clock[0] += 50
    queue._serve(job)
    assert found == [0.0]
    assert queue.quiet_for() == 0.0


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
    began = time.monotonic()
    queue.close(0.05)
    assert 0.04 < time.monotonic() - began < 3
    assert jobs[0].cancelled.is_set()
    gate.set()
    queue._pool.shutdown(wait=True)
    assert most == [1]
    assert [message["id"] for message in sent] == [2, 0]
    assert not queue._jobs  # they are forgotten


def test_heartbeats_come_every_second_with_the_longest_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > 2

    sent: list[Any] = []
    engine = Server({}, sent.append)
    for number, queue in enumerate(engine._queues.values()):
        monkeypatch.setattr(queue, "quiet_for", lambda number=number: [3.0, 7.0, 1.0][number % 3])
    assert len(engine._queues) > 1
    monkeypatch.setattr(threading, "Event", lambda: SimpleNamespace(wait=wait))
    engine._beat()
    assert waited == [1.0] * 3
    assert sent == [{"event": "alive", "quiet": 7.0}] * 2


def test_server_ignores_garbage_and_gives_running_jobs_150_ms_to_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[Any] = []
    closed: list[float] = []
    threads: list[threading.Thread] = []
    engine = Server({}, sent.append)
    for queue in engine._queues.values():
        monkeypatch.setattr(queue, "close", closed.append)

    def lines() -> Any:
        threads.extend(thread for thread in threading.enumerate() if thread.name == "heartbeat")
        yield b"garbage\n"
        yield b'{"id": 4, "op": "nonsense"}\n'

    engine.run(lines())
    assert "ignored: not JSON" in capsys.readouterr().err
    assert sent == [{"id": 4, "end": "failed", "reason": "unknown operation 'nonsense'", "code": ""}]
    assert closed == [0.15] * len(engine._queues)
    assert threads[-1].daemon


def test_message_is_written_whole_even_if_the_pipe_takes_it_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []

    def write(pipe: int, data: memoryview) -> int:
        assert pipe == 77
        written.append(bytes(data[:3]))
        return len(written[-1])

    monkeypatch.setattr(os, "write", write)
    Sender(77)({"event": "hello"})
    assert b"".join(written) == b'{"event":"hello"}\n'


def test_engine_ends_with_status_1_if_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ends: list[int] = []

    def leave(status: int) -> None:
        ends.append(status)
        raise SystemExit

    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        Sender(writing)({"event": "hello"})
    os.close(writing)
    assert ends == [1]


@pytest.mark.parametrize(("size", "left"), [(2**20, 2**20 + 3), (2**20 + 1, 3)])
def test_log_is_continued_up_to_one_mib(tmp_path: Path, size: int, left: int) -> None:
    log = tmp_path / "new" / "deep" / "log"
    descriptor = _open_log(log)
    os.close(descriptor)
    assert log.stat().st_mode & 0o777 == 0o600
    log.write_bytes(bytes(size))
    descriptor = _open_log(log)
    os.write(descriptor, b"one")
    os.close(descriptor)
    assert log.stat().st_size == left


def test_engine_works_without_a_log(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    descriptor = _open_log(tmp_path / "file" / "log")
    assert os.write(descriptor, b"lost") == 4
    os.close(descriptor)


def test_output_goes_to_the_log_and_messages_to_the_pipe(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from frn_tui.engine.pipes import redirect_stdout\n"
        "pipe = redirect_stdout(Path(sys.argv[1]))\n"
        "os.write(1, b'one '); os.write(2, b'two'); os.write(pipe, b'a message')\n"
        "print(sorted(map(int, os.listdir('/dev/fd'))), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, check=True)
    assert (found.stdout, found.stderr) == (b"a message", b"")
    assert (tmp_path / "log").read_text() == "one two[0, 1, 2, 3, 4]\n"  # the pipe, and the listing itself


def test_priority_of_each_thread_is_lowered_by_seven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_: list[tuple[int, int, int]] = []

    def setpriority(which: int, thread: int, value: int) -> None:
        if thread == 12:
            raise ProcessLookupError
        set_.append((which, thread, value))

    for number in (11, 12, 13):
        (tmp_path / "task" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(start, "THREADS", str(tmp_path / "task"))
    monkeypatch.setattr(start, "AUTOGROUP", tmp_path / "autogroup")
    monkeypatch.setattr(os, "setpriority", setpriority)
    monkeypatch.setattr(os, "getpriority", lambda which, thread: thread % 10)
    for own in (False, True):
        monkeypatch.setattr(os, "getsid", {0: os.getpid() + (not own)}.__getitem__)
        set_.clear()
        start.step_back()
        assert sorted(set_) == [(os.PRIO_PROCESS, 11, 8), (os.PRIO_PROCESS, 13, 10)]
        assert (tmp_path / "autogroup").exists() == own
    assert (tmp_path / "autogroup").read_text() == "7"
    monkeypatch.setattr(start, "THREADS", str(tmp_path / "away"))
    set_.clear()
    start.step_back()
    assert set_ == [(os.PRIO_PROCESS, 0, 7)]
    monkeypatch.delattr(os, "nice")
    start.step_back()
    assert len(set_) == 1


def test_engine_steps_back_once_before_its_first_photo(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(start, "step_back", lambda: steps.append("back"))

    def handle(request: int, job: Job) -> int:
        steps.append(str(request))
        return request

    embed = start.after_step_back(handle)
    job: Any = None
    assert [embed(number, job) for number in (1, 2)] == [1, 2]
    assert steps == ["back", "1", "2"]


@pytest.mark.parametrize("words", [[], ["--log", "/tmp/x", "--app", "77"]])
def test_engine_greets_before_it_imports_its_operations(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    done: list[Any] = []

    class Ended(BaseException):
        pass

    def leave(status: int) -> None:
        done.append(status)
        raise Ended

    def run(handlers: dict[str, Any], send: object) -> Any:
        handlers["embed"](None, None)
        return SimpleNamespace(run=lambda lines: (_ for _ in ()).throw(KeyboardInterrupt))

    monkeypatch.setattr(sys, "argv", ["engine", *words])

    def redirect(log: Path) -> int:
        done.append(str(log))
        return 5

    def build(app: int) -> dict[str, Any]:
        done.append(app)
        return {"embed": lambda request, job: done.append("embed")}

    monkeypatch.setattr(start, "redirect_stdout", redirect)
    monkeypatch.setattr(start, "Sender", lambda pipe: done.append)
    monkeypatch.setattr(start, "step_back", lambda: done.append("back"))
    monkeypatch.setattr(faulthandler, "enable", lambda: done.append("faults"))
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("frn_tui.engine.operations.build_handlers", build)
    monkeypatch.setattr("frn_tui.engine.server.Server", run)
    for name in ("OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with contextlib.suppress(Ended):
        start.main()
    hello = {"event": "hello", "protocol": PROTOCOL_VERSION, "pid": os.getpid()}
    log, app = ("/tmp/x", 77) if words else (os.devnull, os.getppid())
    assert done == [log, hello, "faults", app, "back", "embed", 0]
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["OPENBLAS_NUM_THREADS"]) == ("passive", "1")
