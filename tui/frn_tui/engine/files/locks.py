"""Project locks, so that two apps do not save over each other.

Each project has one lock, named by the hash of its path and held by the engine of the app. It is advisory between the
apps of one user: `save_project` protects the file by refusing to overwrite one that has changed.
"""

import contextlib
import hashlib
import os
import re

from frn.system.processes.locks import Lock, holder
from frn_tui.client.file_requests import FindHolder, LockProject
from frn_tui.engine.worker_queues import Job
from frn_tui.settings.settings import state_folder


class Locks:
    """Lock of the project that is open in this app, if any."""

    def __init__(self, app: int) -> None:
        self._app = app
        self._mine: Lock | None = None

    def find_holder(self, request: FindHolder, job: Job) -> int | None:
        return self.holder(request.path)

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
