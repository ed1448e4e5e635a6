"""Which app a project is open in, so that two of them do not save over each other.

One lock per project, named by the hash of its path, that the engine of the app holds. It is a courtesy between the
apps of one user: what keeps a file from being overwritten is `save_project`, which refuses one that has changed.
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
    """The lock of the project that is open in this app; it has one at most."""

    def __init__(self, app: int) -> None:
        self._app = app
        self._mine: Lock | None = None

    def find_holder(self, request: FindHolder, job: Job) -> int | None:
        return self.holder(request.path)

    def lock(self, request: LockProject, job: Job) -> None:
        """Lock a project, also if another app has it; let go of the last one."""
        if self._mine is not None:
            self._mine.release()
        self._mine = None if request.path is None else self._lock_of(request.path)
        if self._mine is not None:
            with contextlib.suppress(OSError):  # no place for locks is no reason not to work
                if not self._mine.acquire():
                    self._mine.path.unlink(missing_ok=True)  # from now on its name is that of this app's lock
                    self._mine.acquire()

    def holder(self, path: str) -> int | None:
        """Process of the other app that a project is open in."""
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
