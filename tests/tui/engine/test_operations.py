"""What any request gets; models; the queues."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import INTERNAL, REQUESTS, Request
from frn_tui.engine.server import Server
from frn_tui.engine.worker_queues import Job

from tests.tui.engine.conftest import Engine, Message


def test_every_operation_of_the_protocol_is_there(bare: Engine) -> None:
    assert set(bare.handlers) == set(REQUESTS)


@pytest.mark.parametrize("op", ["embed", "query", "classes", "hide_and_test", "export", "save"])
def test_without_a_model_one_is_asked_for(bare: Engine, op: str, tmp_path: Path) -> None:
    state: Message = {"classes": [], "threshold": None, "next_id": 1}
    asked = bare.ask(op, paths=["a"], state=state, shot=1, path=str(tmp_path / "x.frn.json"))
    assert "no model is open" in asked.reason


@pytest.mark.parametrize("op", sorted(set(REQUESTS) - {"recover", "settle"}))
def test_arguments_that_are_missing_are_named(engine: Engine, op: str) -> None:
    assert engine.ask(op).end["end"] == "failed"
    assert "internal error" not in engine.ask(op).reason


def test_a_bug_is_an_answer_too(bare: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(request: object, job: Job) -> Message:
        raise ZeroDivisionError("two\nlines")

    bare.handlers["scan"] = broken
    asked = bare.ask("scan", path="/")
    assert (asked.reason, asked.end["code"]) == ("internal error: ZeroDivisionError: two lines", INTERNAL)
    assert "Traceback" in capsys.readouterr().err


def test_a_model_tells_what_it_is_and_a_wrong_one_leaves_the_old_open(engine: Engine, tmp_path: Path) -> None:
    told = engine.done("open_model", model="conv4")
    assert (told["side"], told["grid"], told["d"], told["device"]) == (32, [4, 4], 64, "cpu")
    (tmp_path / "x.safetensors").touch()
    assert "frn export --onnx" in engine.ask("open_model", model=str(tmp_path / "x.safetensors")).reason
    assert "there is no such file" in engine.ask("open_model", model=str(tmp_path / "x.onnx")).reason
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    assert "is not an ONNX file" in engine.ask("open_model", model=str(tmp_path / "junk.onnx")).reason
    assert engine.ask("embed", paths=[]).end["end"] == "done"


def test_queues_work_side_by_side_and_drop_what_is_cancelled_while_it_waits(until: Callable[..., None]) -> None:
    sent: list[Message] = []
    gate = threading.Event()

    def handle(request: Request[Any], job: Job) -> Message:
        if request.queue == "compute":
            gate.wait(5)
        return {}

    server = Server(dict.fromkeys(REQUESTS, handle), lambda message: sent.append(dict(message)))
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
