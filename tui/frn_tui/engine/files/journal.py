"""Journals of unsaved work.

A journal is written after every edit so that a crash or a lost terminal loses nothing. Each app has one file, named by
its process, with a lock. A file whose lock is free was left by a crash.
"""

import contextlib
import os
import time
from pathlib import Path

from frn.errors import FrnError
from frn.projects.project import MAX_BYTES
from frn.system.files import read_json, write_atomically
from frn.system.processes.locks import Lock
from frn.system.processes.messages import convert, encode
from frn_tui.client.file_requests import DiscardJournal, Recover, Recovered, WriteJournal
from frn_tui.engine.worker_queues import Job
from frn_tui.settings.settings import state_folder

FORMAT = "frn-journal"
JOURNAL_VERSION = 1
PATIENCE = 15.0
"""Seconds that the engine of a killed app has to exit."""


class RunningApp:
    """The app's own journal, and those of other apps, of which some have exited."""

    def __init__(self, app: int, started: int = 0) -> None:
        self._path = state_folder() / f"journal-{started}-{app}.json"
        self._lock = Lock(self._path.with_suffix(".lock"))
        if self._path.exists():  # left by the previous engine
            self._hold()

    def keep(self, request: WriteJournal, job: Job) -> None:
        self._hold()
        entry = {"format": FORMAT, "version": JOURNAL_VERSION, "time": time.time(), **vars(request)}
        write_atomically(self._path, encode(entry), replace=True)

    def recover(self, request: Recover, job: Job) -> Recovered | None:
        """Return the newest journal left by another app; others follow once it is discarded."""
        return max(self._left(), key=lambda one: one.time, default=None)

    def discard(self, request: DiscardJournal, job: Job) -> None:
        if request.journal is not None and request.journal not in [left.journal for left in self._left()]:
            return
        path = Path(request.journal or self._path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FrnError(f"{path}: cannot be removed ({error.strerror})") from error
        if request.journal is None:
            self._lock.release()

    def _hold(self) -> None:
        if not self._lock.is_held():
            with contextlib.suppress(OSError):  # writing the journal reports the reason
                self._lock.acquire()

    def _left(self) -> list[Recovered]:
        journals = [path for path in self._path.parent.glob("journal-*.json") if path != self._path]
        return [journal for path in journals if _is_left(path) and (journal := _read(path))]


def _is_left(path: Path) -> bool:
    """Return whether the app that owns a journal has exited. Its engine, which has the lock, may take longer."""
    lock, until = Lock(path.with_suffix(".lock")), time.monotonic() + PATIENCE
    with contextlib.suppress(OSError):
        while not lock.acquire():
            if _runs(path.stem.rpartition("-")[2]) or time.monotonic() > until:
                return False
            time.sleep(0.05)
        lock.release()
    return True


def _runs(process: str) -> bool:
    """Return whether a process is running, as far as the system tells."""
    if os.name == "nt" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _read(path: Path) -> Recovered | None:
    try:
        entry = read_json(path, MAX_BYTES)
        if (entry["format"], entry["version"]) != (FORMAT, JOURNAL_VERSION):
            return None
        return convert({**entry, "journal": str(path)}, Recovered)
    except (ValueError, KeyError, TypeError):  # an incomplete journal
        return None
