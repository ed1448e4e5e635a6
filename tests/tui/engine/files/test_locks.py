"""Names and holders of project locks."""

import hashlib
import os
from pathlib import Path

import pytest
from frn_tui.client.file_requests import LockProject
from frn_tui.engine.files.journal import RunningApp

from frn.system.processes.locks import Lock

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
    locks = RunningApp(7)
    lock(locks, link / "x.frn.json")
    digest = hashlib.sha256(os.fsencode(home.resolve() / "x.frn.json")).hexdigest()
    (found,) = (state_folder / "open").iterdir()
    assert found.name == f"{digest[:32]}.lock"
    assert ask(RunningApp(8), home / "x.frn.json") == 7
    assert ask(locks, home / "x.frn.json") is None
    lock(locks, None)
    assert ask(RunningApp(8), home / "x.frn.json") is None


def test_lock_that_another_app_held_until_now_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, acquire = iter([False, True]), Lock.acquire
    tried = []

    def later(held: Lock) -> bool:
        tried.append(held.path)
        return next(answers) and acquire(held)

    monkeypatch.setattr(Lock, "acquire", later)
    lock(RunningApp(7), tmp_path / "x.frn.json")  # the other app has removed its lock meanwhile
    assert len(tried) == 2
    monkeypatch.setattr(Lock, "acquire", acquire)
    assert ask(RunningApp(8), tmp_path / "x.frn.json") == 7


def test_projects_can_be_opened_where_no_lock_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_folder: Path
) -> None:
    state_folder.write_text("a file")
    locks = RunningApp(7)
    lock(locks, tmp_path / "x.frn.json")
    assert ask(locks, tmp_path / "x.frn.json") is None
