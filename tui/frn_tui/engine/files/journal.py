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
from frn.projects.project import MAX_PROJECT_BYTES
from frn.system.files import read_json, write_atomically
from frn.system.processes.locks import Lock, holder
from frn.system.processes.messages import convert, encode
from frn_tui.client.file_requests import DiscardJournal, LockProject, Recover, Recovered, WriteJournal
from frn_tui.engine.worker_queues import Job
from frn_tui.settings.settings import state_folder

FORMAT = "frn-journal"
JOURNAL_VERSION = 1
PATIENCE = 15.0  # seconds that the engine of a killed app has to exit


class RunningApp:
    """The app's own journal and project lock, and those of other apps, of which some have exited."""

    def __init__(self, app: int, started: int) -> None:
        self._app = app
        self._project: Lock | None = None  # lock of the open project
        self._path = state_folder() / f"journal-{started}-{app}.json"
        self._lock = Lock(self._path.with_suffix(".lock"))
        if self._path.exists():  # left by the previous engine
            self._hold()

    def keep(self, request: WriteJournal, job: Job) -> None:
        self._hold()
        entry = {"format": FORMAT, "version": JOURNAL_VERSION, "time": time.time(), **vars(request)}
        write_atomically(self._path, encode(entry), replace=True)

    def name_project(self, path: str) -> None:
        """Name a project that was just saved in the journal, if there is one: the app may be killed before it does."""
        with contextlib.suppress(ValueError, KeyError, TypeError):  # damaged or a full disk; the next one reports it
            entry = read_json(self._path, MAX_PROJECT_BYTES)
            if entry["project"] != path:
                write_atomically(self._path, encode({**entry, "project": path, "place": None}), replace=True)

    def recover(self, request: Recover, job: Job) -> Recovered | None:
        """Return the newest journal left by another app; others follow once it is discarded."""
        return max(self._left(), key=lambda one: one.time, default=None)

    def discard(self, request: DiscardJournal, job: Job) -> None:
        if request.journal is not None and request.journal not in [journal.journal for journal in self._left()]:
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

    def lock(self, request: LockProject, job: Job) -> None:
        """Lock a project, even if another app has it, and release the previous one."""
        if self._project is not None:
            self._project.release()
        self._project = None if request.path is None else self._lock_of(request.path)
        if self._project is not None:
            with contextlib.suppress(OSError):  # work without locks if they cannot be created
                if not self._project.acquire():
                    self._project.path.unlink(missing_ok=True)  # the name now belongs to this app's lock
                    self._project.acquire()

    def holder(self, path: str) -> int | None:
        """Return the process of another app that has a project open."""
        wanted = self._lock_of(path)
        if self._project is not None and self._project.path == wanted.path and self._project.is_held():
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
    try:
        if os.name != "nt":
            os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError):  # it belongs to another user, or the name is not ours
        pass
    return True


def _read(path: Path) -> Recovered | None:
    try:
        entry = read_json(path, MAX_PROJECT_BYTES)
        if (entry["format"], entry["version"]) != (FORMAT, JOURNAL_VERSION):
            return None
        return convert({**entry, "journal": str(path)}, Recovered)
    except (ValueError, KeyError, TypeError):  # an incomplete journal
        return None
