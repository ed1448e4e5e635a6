"""Journals of unsaved work and of moved photos, and locks of projects."""

import errno
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from frn_tui.client.file_requests import LockProject
from frn_tui.engine.files import moves
from frn_tui.engine.files.journal import RunningApp
from frn_tui.engine.files.moves import MoveJournal, settle_all, settled
from frn_tui.engine.operations import build_handlers

from frn.errors import FrnError
from frn.system.files import LOCK, PART, beside, open_to_append
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
    for _ in range(2):  # there may be none
        bare.done("discard", journal=None)
    assert not path.exists()
    free = Lock(path.with_suffix(".lock"))
    assert free.acquire()
    free.release()


def test_an_engine_that_replaces_a_crashed_one_continues_its_journal(state_folder: Path) -> None:
    state_folder.mkdir()
    (journal := state_folder / "journal-5-8.json").write_text("damaged")
    engine = Engine(build_handlers(8, 5))
    assert not Lock(journal.with_suffix(".lock")).acquire()
    engine.done("journal", state={"classes": []}, model="conv4", project=None, place=None, adding={})
    assert json.loads(journal.read_text())["model"] == "conv4"


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


JOB = None


def ask(locks: RunningApp, path: Path) -> int | None:
    return locks.holder(str(path))


def lock(locks: RunningApp, path: Path | None) -> None:
    locks.lock(LockProject(path=None if path is None else str(path)), JOB)  # type: ignore[arg-type]


def test_all_versions_of_the_app_find_the_lock_under_the_same_name(state_folder: Path, tmp_path: Path) -> None:
    """It is the start of the hash of the project's real path."""
    home, link = tmp_path / "home", tmp_path / "link"
    home.mkdir()
    link.symlink_to(home)
    locks = RunningApp(7, 0)
    lock(locks, link / "x.frn.json")
    digest = hashlib.sha256(os.fsencode(home.resolve() / "x.frn.json")).hexdigest()
    (found,) = (state_folder / "open").iterdir()
    assert found.name == f"{digest[:32]}.lock"
    assert ask(RunningApp(8, 0), home / "x.frn.json") == 7
    assert ask(locks, home / "x.frn.json") is None
    found.write_bytes(b"")  # as on a full disk
    assert ask(RunningApp(8, 0), home / "x.frn.json") == 0
    lock(locks, None)
    assert ask(RunningApp(8, 0), home / "x.frn.json") is None


def test_lock_that_another_app_held_until_now_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, acquire = iter([False, True]), Lock.acquire
    tried = []

    def later(held: Lock) -> bool:
        tried.append(held.path)
        return next(answers) and acquire(held)

    monkeypatch.setattr(Lock, "acquire", later)
    lock(RunningApp(7, 0), tmp_path / "x.frn.json")  # the other app has removed its lock meanwhile
    assert len(tried) == 2
    monkeypatch.setattr(Lock, "acquire", acquire)
    assert ask(RunningApp(8, 0), tmp_path / "x.frn.json") == 7


def test_projects_can_be_opened_where_no_lock_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_folder: Path
) -> None:
    state_folder.write_text("a file")
    locks = RunningApp(7, 0)
    lock(locks, tmp_path / "x.frn.json")
    assert ask(locks, tmp_path / "x.frn.json") is None


def test_line_that_is_written_only_in_part_stops_the_move(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, line: bytes) -> None:
            self.file.write(line[:7])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = MoveJournal()
    monkeypatch.setattr(moves, "open_to_append", lambda *words: Full(open_to_append(*words)))
    with pytest.raises(FrnError) as refused:
        journal.write({"move": "a"})
    assert str(refused.value) == f"{journal.path}: cannot be written (No space left on device); no photo was moved"
    monkeypatch.undo()
    assert journal.path.read_bytes() == b'{"move"'
    journal.write({"move": "b"})
    assert journal.path.read_bytes().startswith(b'{"move"\n{"move": "b"')


@pytest.mark.parametrize(
    ("source", "target", "size", "came", "left"),
    [
        (None, None, 5, "gone", {}),
        (None, "photo", 5, "moved", {"target": "photo"}),
        ("photo", None, 5, "kept", {"source": "photo"}),
        ("photo", "", 5, "kept", {"source": "photo"}),  # a placeholder
        ("photo", "photo", 5, "moved", {"target": "photo"}),
        ("photo", "owner", 5, "kept", {"source": "photo", "target": "owner"}),
        ("photo", "photo", 6, "kept", {"source": "photo", "target": "photo"}),
        ("", "", 0, "moved", {"target": ""}),
    ],
)
def test_outcome_of_an_interrupted_move(
    tmp_path: Path, source: str | None, target: str | None, size: int, came: str, left: dict[str, str]
) -> None:
    for name, content in (("source", source), ("target", target)):
        if content is not None:
            (tmp_path / name).write_text(content)
    assert settled(tmp_path / "source", tmp_path / "target", size) == came
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == left


def test_settling_reads_all_journals_but_no_other_files(state_folder: Path, tmp_path: Path) -> None:
    sources, journals = [], []
    for name in ("a", "b", "c"):
        sources.append(tmp_path / f"{name}.jpg")
        journal = MoveJournal()
        target = tmp_path / f"moved {name}.jpg"
        target.write_text("photo")
        beside(target, PART).write_text("pho")
        journal.write({"move": str(sources[-1]), "to": str(target), "bytes": 5})
        journals.append(journal.path)
    journal.path.rename(journal.path.with_name("notes.jsonl"))
    busy = Lock(beside(journals[0], LOCK))
    assert busy.acquire()  # its program is still moving photos
    assert settle_all()[0] == {str(sources[1]): str(tmp_path / "moved b.jpg")}
    busy.release()
    places, gone = settle_all()
    assert places == {str(sources[0]): str(tmp_path / "moved a.jpg")}
    assert gone == []
    assert settle_all() == ({}, [])
    assert [*tmp_path.glob(".*")] == [beside(target, PART)]  # that of the notes
