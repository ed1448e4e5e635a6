"""Behaviour of all requests, models and queues."""

import io
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from frn_tui.client.protocol import MIRROR, REQUESTS, OpenModel, Request, parse
from frn_tui.engine.models import Models
from frn_tui.engine.worker_queues import Job, Server, serve

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
