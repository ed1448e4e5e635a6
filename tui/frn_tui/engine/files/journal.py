"""Journals of unsaved work, and locks of open projects.

A journal is written after every edit so that a crash or a lost terminal loses nothing. Each app has one file, named by
its process, with a lock. A file whose lock is free was left by a crash.

Each project has a lock as well, so that two apps do not save over each other. It is named by the hash of the project's
path, held by the engine of the app, and advisory: `save_project` refuses to overwrite a file that has changed.
"""

import contextlib
import hashlib
import os
import re
import time
from pathlib import Path

from frn.errors import FrnError
from frn.inference.project import MAX_BYTES
from frn.system.files import read_json, write_atomically
from frn.system.processes.locks import Lock, holder
from frn.system.processes.messages import convert, encode
from frn_tui.client.file_requests import DiscardJournal, LockProject, Recover, Recovered, WriteJournal
from frn_tui.engine.worker_queues import Job
from frn_tui.settings.settings import state_folder

FORMAT = "frn-journal"
JOURNAL_VERSION = 1
PATIENCE = 1.0
"""Seconds that the engine of a killed app has to exit."""


class Journals:
    """The app's own journal, and those of apps that are no longer running."""

    def __init__(self, app: int) -> None:
        self._path = state_folder() / f"journal-{app}.json"
        self._lock = _lock_of(self._path)
        if self._path.exists():  # left by the previous engine
            self._hold()

    def keep(self, request: WriteJournal, job: Job) -> None:
        """Write unsaved work to the journal, or remove the journal if everything is saved."""
        if request.saved:
            self._remove_own()
            return
        self._hold()
        entry = {"format": FORMAT, "version": JOURNAL_VERSION, "time": time.time(), **vars(request)}
        write_atomically(self._path, encode(entry))

    def recover(self, request: Recover, job: Job) -> Recovered | None:
        """Return the newest journal left by another app; others follow once it is discarded."""
        return max(self._left(), key=lambda one: one.time, default=None)

    def discard(self, request: DiscardJournal, job: Job) -> None:
        """Remove this app's journal, or one left by another app."""
        if request.journal is None:
            self._remove_own()
        elif request.journal in [left.journal for left in self._left()]:
            _remove(Path(request.journal))

    def _hold(self) -> None:
        if not self._lock.is_held():
            with contextlib.suppress(OSError):  # writing the journal reports the reason
                self._lock.acquire()

    def _remove_own(self) -> None:
        _remove(self._path)
        self._lock.release()

    def _left(self) -> list[Recovered]:
        """Return the journals of apps that are no longer running."""
        journals = [path for path in self._path.parent.glob("journal-*.json") if path != self._path]
        return [left for path in journals if _is_left(path) and (left := _read(path))]


def _lock_of(path: Path) -> Lock:
    return Lock(path.with_suffix(".lock"))


def _is_left(path: Path) -> bool:
    """Return whether the app that owns a journal has exited. Its engine, which has the lock, may take longer."""
    lock = _lock_of(path)
    with contextlib.suppress(OSError):
        if not lock.acquire(PATIENCE):
            return False
        lock.release()
    return True


def _read(path: Path) -> Recovered | None:
    """Return the content of a journal, or None if it is damaged."""
    try:
        entry = read_json(path, MAX_BYTES)
        if (entry["format"], entry["version"]) != (FORMAT, JOURNAL_VERSION):
            return None
        return convert({**entry, "journal": str(path)}, Recovered)
    except (ValueError, KeyError, TypeError):  # an incomplete journal
        return None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FrnError(f"{path}: cannot be removed ({error.strerror})") from error


class Locks:
    """Lock of the project that is open in this app, if any."""

    def __init__(self, app: int) -> None:
        self._app = app
        self._mine: Lock | None = None

    def lock(self, request: LockProject, job: Job) -> None:
        """Lock a project, even if another app has it, and release the previous one."""
        if self._mine is not None:
            self._mine.release()
        self._mine = None if request.path is None else self._lock_of(request.path)
        if self._mine is not None:
            with contextlib.suppress(OSError):  # work without locks if they cannot be created
                if not self._mine.acquire():
                    self._mine.path.unlink(missing_ok=True)  # the name now belongs to this app's lock
                    self._mine.acquire()

    def holder(self, path: str) -> int | None:
        """Return the process of another app that has a project open."""
        wanted = self._lock_of(path)
        if self._mine is not None and self._mine.path == wanted.path and self._mine.is_held():
            return None
        with contextlib.suppress(OSError):
            if not wanted.acquire():
                number = re.search("[0-9]+", holder(wanted.path))
                return int(number[0]) if number else 0
            wanted.release()
        return None

    def _lock_of(self, path: str) -> Lock:
        name = os.fsencode(os.path.realpath(path))
        return Lock(state_folder() / "open" / f"{hashlib.sha256(name).hexdigest()[:32]}.lock", process=self._app)
