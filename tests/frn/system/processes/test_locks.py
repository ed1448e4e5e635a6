"""Locks between processes."""

import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frn.errors import FrnError, FrnWarning
from frn.system.processes import locks
from frn.system.processes.locks import Lock, lock
from frn.training.runs.run import RunFolder
from tests.forks import ended, fork


def test_only_one_of_many_waiting_threads_holds_the_lock(tmp_path: Path) -> None:
    inside: list[int] = []

    def work(number: int) -> int:
        most = 0
        for _ in range(5):
            with lock(tmp_path / "lock", "x"):
                inside.append(number)
                time.sleep(0.0005)
                most = max(most, len(inside))
                inside.pop()
        return most

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {1}
    assert list(tmp_path.iterdir()) == []


def test_a_waiting_writer_names_the_lock_holder_and_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WARN_AFTER", 0.05)
    held = Lock(tmp_path / "lock")
    assert held.acquire()
    told = rf"birds: .*process {os.getpid()} \(.*writing this file"
    with (
        pytest.warns(FrnWarning, match=told),
        pytest.raises(FrnError, match=told),
        lock(tmp_path / "lock", "birds", give_up_after=0.2),
    ):
        pytest.fail("entered")
    held.release()
    with warnings.catch_warnings(), lock(tmp_path / "lock", "birds"):
        warnings.simplefilter("error")


def test_file_system_without_locks_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import filelock

    def refuse(*_: object, **__: object) -> None:
        raise OSError(locks.NO_LOCKS[0], "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with lock(tmp_path / "lock", "x"), lock(tmp_path / "lock", "x"):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_run_folder_belongs_to_one_process(tmp_path: Path) -> None:
    read, write = os.pipe()
    done, end = os.pipe()
    folder = RunFolder(tmp_path / "run")

    def hold() -> None:
        os.close(end)
        folder.claim()
        os.write(write, b"y")
        os.read(done, 1)

    process = fork(hold)
    os.close(write)
    assert os.read(read, 1) == b"y"
    with pytest.raises(FrnError, match=rf"process {process} \(.*is already training there"):
        folder.claim()
    os.close(end)
    os.close(done)
    assert ended(process) == 0
    folder.claim()
    RunFolder(tmp_path / "run").claim()  # this process already holds the lock
    folder.release()
    assert ended(fork(folder.claim)) == 0
    os.close(read)
