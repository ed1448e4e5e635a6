"""A request that is no longer needed ends before its next chunk of work."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.protocol import parse
from frn_tui.engine.worker_queues import Job, serve

from tests.tui.engine.conftest import Engine, first

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


def test_request_that_was_cancelled_while_it_waited_does_nothing(
    engine: Engine, requests: Requests, tmp_path: Path
) -> None:
    for op, (_, arguments) in requests.items():
        messages: list[Mapping[str, object]] = []
        job = Job(1, parse({"op": op, **arguments}), messages.append)
        job.cancelled.set()
        serve(engine.handlers[op], job)
        assert len(messages) == 1, op
    assert [path.name for path in tmp_path.iterdir() if path.name in ("new", "new.zip", "c.onnx")] == []
