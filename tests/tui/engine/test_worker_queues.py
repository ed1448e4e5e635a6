"""Jobs in their order, and the start, priority and log of the engine."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import INTERNAL, parse
from frn_tui.engine.worker_queues import MAX_LOG, Job, Server, serve

from frn.errors import FrnError

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


def test_a_log_is_restarted_once_it_is_large_or_if_it_has_another_name(tmp_path: Path) -> None:
    before = {"short": 5, "full": MAX_LOG, "large": MAX_LOG + 1, "linked": 5}
    for name, size in before.items():
        (tmp_path / name).write_bytes(b"-" * size)
    os.link(tmp_path / "linked", tmp_path / "diary")
    code = "import sys, pathlib, frn_tui.engine.worker_queues as w\n"
    code += "for log in sys.argv[1:]: w.redirect_stdout(pathlib.Path(log)); print('new', flush=True)"
    subprocess.run([sys.executable, "-c", code, *(str(tmp_path / name) for name in before)], check=True)
    kept = {name: len((tmp_path / name).read_bytes()) - len("new\n") for name in before}
    assert kept == {"short": 5, "full": MAX_LOG, "large": 0, "linked": 0}
    assert (tmp_path / "diary").read_bytes() == b"-" * 5
