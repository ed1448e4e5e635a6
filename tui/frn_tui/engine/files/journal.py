"""What was not saved yet, kept aside after every edit, so that a crash or a lost terminal takes nothing.

One file per app, named by its process, with a lock. A file whose lock is free is what a crash has left.
"""

import contextlib
import os
import time
from pathlib import Path

from frn.errors import FrnError
from frn.inference.project import MAX_BYTES
from frn.system.files import read_json, write_atomically
from frn.system.processes.locks import Lock
from frn.system.processes.messages import convert, encode
from frn_tui.client.file_requests import DiscardJournal, Recover, Recovered, WriteJournal
from frn_tui.engine.worker_queues import Job
from frn_tui.settings.settings import state_folder

FORMAT = "frn-journal"
JOURNAL_VERSION = 1
PATIENCE = 3.0
"""Seconds that the engine of an app that was killed has to end."""


class Journals:
    """The app's own journal, and those of others that are gone."""

    def __init__(self, app: int) -> None:
        self._app = app
        self._path = state_folder() / f"journal-{app}.json"
        self._lock = _lock_of(self._path)
        if self._path.exists():  # of the engine before this one
            self._hold()

    def keep(self, request: WriteJournal, job: Job) -> None:
        """Keep what is unsaved aside; where all is saved there is nothing to keep any more."""
        if request.saved:
            self._remove_own()
            return
        self._hold()
        entry = {
            "format": FORMAT,
            "version": JOURNAL_VERSION,
            "time": time.time(),
            "state": request.state,
            "model": request.model,
            "project": request.project,
            "place": request.place,
            "adding": request.adding,
        }
        write_atomically(self._path, encode(entry))

    def recover(self, request: Recover, job: Job) -> Recovered | None:
        """The newest journal of an app that is gone; the others are found once that is discarded."""
        return max(self._left(), key=lambda one: one.time, default=None)

    def discard(self, request: DiscardJournal, job: Job) -> None:
        """Remove the own journal, or one whose app is gone."""
        if request.journal is None:
            self._remove_own()
        elif request.journal in [left.journal for left in self._left()]:
            _remove(Path(request.journal))

    def _hold(self) -> None:
        if not self._lock.is_held():
            with contextlib.suppress(OSError):  # writing the journal says why
                self._lock.acquire()

    def _remove_own(self) -> None:
        _remove(self._path)
        self._lock.release()

    def _left(self) -> list[Recovered]:
        """Journals whose apps are gone."""
        journals = [path for path in self._path.parent.glob("journal-*.json") if path != self._path]
        return [left for path in journals if _is_left(path) and (left := _read(path))]


def _lock_of(path: Path) -> Lock:
    return Lock(path.with_suffix(".lock"))


def _is_left(path: Path) -> bool:
    """Return whether the app of a journal is gone. Its engine, which has the lock, may take a moment longer."""
    lock, until = _lock_of(path), time.monotonic() + PATIENCE
    with contextlib.suppress(OSError):
        while not lock.acquire():
            if _runs(path.stem.rpartition("-")[2]) or time.monotonic() > until:
                return False
            time.sleep(0.05)
        lock.release()
    return True


def _runs(process: str) -> bool:
    """Return whether a process runs, as far as the system tells."""
    if os.name == "nt" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _read(path: Path) -> Recovered | None:
    """What a journal says; None if it is damaged."""
    try:
        entry = read_json(path, MAX_BYTES)
        if (entry["format"], entry["version"]) != (FORMAT, JOURNAL_VERSION):
            return None
        return convert({**entry, "journal": str(path)}, Recovered)
    except (ValueError, KeyError, TypeError):  # half a journal is none
        return None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FrnError(f"{path}: cannot be removed ({error.strerror})") from error
