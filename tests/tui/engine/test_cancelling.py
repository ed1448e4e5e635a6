"""A request that is no longer needed ends before its next chunk of work."""

from pathlib import Path
from typing import Any

import pytest
from frn_tui.engine.worker_queues import Job

from tests.tui.engine.conftest import Engine, first


def test_each_request_checks_for_cancellation_as_often_as_recorded(
    engine: Engine, members: dict[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five classes of three photos each, and a folder of four photos."""
    few = {name: [str(path) for path in own] for name, own in first(members, 3).items()}
    state, paths = engine.state(first(members, 3)), [path for own in few.values() for path in own]
    (tmp_path / "photos" / "deep").mkdir(parents=True)
    for number, path in enumerate(paths[:4]):
        (tmp_path / "photos" / "deep" / f"{number}.png").write_bytes(Path(path).read_bytes())
    folder, bundle = str(tmp_path / "photos"), str(tmp_path / "b.zip")
    requests: list[tuple[str, dict[str, Any], int]] = [
        ("embed", {"paths": paths}, 31),
        ("classes", {"state": state}, 22),
        ("query", {"paths": paths}, 46),
        ("compare", {"classes": few, "models": ["conv4"]}, 2),
        ("scan", {"path": folder}, 7),
        ("stamp", {"paths": paths}, 16),
        ("relocate", {"folder": folder, "sizes": {"0" * 32: 1}}, 7),
        ("bundle", {"path": bundle, "state": state}, 37),
        ("unpack", {"path": bundle, "folder": str(tmp_path / "new")}, 16),
        ("export", {"path": str(tmp_path / "c.onnx")}, 2),
        ("preview", {"path": paths[0], "columns": 4, "rows": 2}, 2),
    ]
    checks, check = [0], Job.check

    def counting(job: Job) -> None:
        checks[0] += 1
        check(job)

    monkeypatch.setattr(Job, "check", counting)
    found = {}
    for op, arguments, _ in requests:
        checks[0] = 0
        engine.done(op, **arguments)
        found[op] = checks[0]
    assert found == {op: expected for op, _, expected in requests}
