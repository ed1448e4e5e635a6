"""Which app a project is open in, so that two of them do not save over each other.

One file per project, named by the hash of its path and holding the app's process. A lock whose app is gone counts for
nothing, so a crash leaves none. It is a courtesy between the apps of one user: what keeps a file from being overwritten
is `save_project`, which refuses where it was changed meanwhile.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import read_json, write_atomically
from frn_tui.client.file_requests import FindHolder, Holder, LockProject
from frn_tui.client.protocol import Nothing
from frn_tui.engine.worker_queues import Job
from frn_tui.settings.settings import state_folder


class Locks:
    """The lock of the project that is open in this app; it has one at most."""

    def __init__(self, app: int) -> None:
        self._app = app
        self._folder = state_folder() / "open"

    def find_holder(self, request: FindHolder, job: Job) -> Holder:
        return {"holder": self.holder(request.path)}

    def lock(self, request: LockProject, job: Job) -> Nothing:
        """Lock a project, also where another app has it; let go of the last one."""
        path = request.path
        mine = None if path is None else self._file(path)
        for file in self._folder.glob("*.json"):
            if file != mine and self._read(file) == self._app:
                file.unlink(missing_ok=True)
        if mine is not None:
            with contextlib.suppress(FrnError):  # no place for locks is no reason not to work
                write_atomically(mine, json.dumps({"process": self._app, "born": birth(self._app), "path": path}))
        return {}

    def holder(self, path: str) -> int | None:
        """Process of the other app that a project is open in."""
        process = self._read(self._file(path))
        return None if process == self._app else process

    def _file(self, path: str) -> Path:
        name = os.fsencode(os.path.realpath(path))
        return self._folder / f"{hashlib.sha256(name).hexdigest()[:32]}.json"

    def _read(self, file: Path) -> int | None:
        """Process of the app that holds a lock, if it lives."""
        try:
            entry = read_json(file)
            process = int(entry["process"])
            return process if lives(process, entry["born"]) else None
        except (ValueError, KeyError, TypeError, OverflowError):
            return None


def lives(process: int, born: object) -> bool:
    """Whether a process runs, and is not another one with the same number: numbers are given again."""
    if os.name == "nt":  # there a signal 0 would end it
        return process == os.getppid()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return born is None or born == birth(process)


def birth(process: int) -> str | None:
    """When a process began, in the system's own count; None where that cannot be known."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
