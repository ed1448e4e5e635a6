"""How long recovery waits, and what a journal contains."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from frn.system.processes.locks import Lock
from tests.tui.engine.conftest import Engine

GONE = 2**22 + 5  # a process number above the largest


def test_journal_contains_all_unsaved_work(bare: Engine, state_folder: Path) -> None:
    fields: dict[str, Any] = {"model": "conv4", "project": "/x", "place": "/y", "adding": {"jay": ["/1.jpg"]}}
    before = time.time()
    bare.done("journal", state={"classes": [], "threshold": 0.5}, **fields)
    path = state_folder / f"journal-0-{os.getpid()}.json"
    entry = json.loads(path.read_text())
    assert before <= entry.pop("time") <= time.time()
    state = entry.pop("state")
    assert (state["threshold"], entry) == (0.5, {"format": "frn-journal", "version": 1, **fields})
    assert not Lock(path.with_suffix(".lock")).acquire()
    bare.done("discard", journal=None)
    assert not path.exists()
    free = Lock(path.with_suffix(".lock"))
    assert free.acquire()
    free.release()


@pytest.mark.parametrize("change", [{"format": "other"}, {"version": 2}, {"state": 5}, {"time": None}])
def test_journal_of_another_format_or_version_is_not_read(
    bare: Engine, state_folder: Path, change: dict[str, Any]
) -> None:
    state_folder.mkdir(parents=True, exist_ok=True)
    entry = {"format": "frn-journal", "version": 1, "time": 1.0, "state": {"classes": []}, "model": "conv4"}
    entry |= {"project": None, "place": None, "adding": {}}
    path = state_folder / f"journal-{GONE}.json"
    path.write_text(json.dumps(entry))
    assert bare.done("recover")["journal"] == str(path)
    path.write_text(json.dumps({**entry, **change}))
    assert bare.done("recover") is None


def test_journal_that_cannot_be_removed_is_reported(bare: Engine, state_folder: Path) -> None:
    path = state_folder / f"journal-0-{os.getpid()}.json"
    path.mkdir(parents=True)
    (path / "x").touch()
    assert bare.ask("discard", journal=None).reason.startswith(f"{path}: cannot be removed (")
