"""What was not saved yet, kept aside after every edit, so that a crash or a lost terminal takes nothing.

One file per app, named by its process. A file whose process is gone is what a crash has left.
"""

import json
import time
from pathlib import Path
from typing import Any

from frn.errors import FrnError
from frn.files import write_atomically
from frn_tui.engine.processes import birth, lives
from frn_tui.engine.worker_queues import Request
from frn_tui.serialization import state_from_json, state_to_json
from frn_tui.state import state_folder

FORMAT = "frn-journal"
VERSION = 1


class Journal:
    """The app's own journal, and those of others that are gone."""

    def __init__(self, app: int) -> None:
        self._app = app
        self._path = state_folder() / f"journal-{app}.json"

    def keep(self, request: Request) -> dict[str, object]:
        """Keep {state, model, project, adding} aside; where `saved` is true there is nothing to keep any more."""
        if request.flag("saved"):
            _remove(self._path)
            return {}
        entry = {
            "format": FORMAT,
            "version": VERSION,
            "process": self._app,
            "born": birth(self._app),
            "time": time.time(),
            "state": state_to_json(state_from_json(request.arguments.get("state"))),
            "model": request.arguments.get("model"),
            "project": request.arguments.get("project"),
            "adding": request.arguments.get("adding"),
        }
        write_atomically(self._path, json.dumps(entry))
        return {}

    def recover(self, request: Request) -> dict[str, object]:
        """The newest journal of an app that is gone: {state, model, project, adding, time}, or {} where there is none.

        With `discard` such journals are removed instead; with `discard` and `own`, this app's.
        """
        if request.flag("discard"):
            for path in [self._path] if request.flag("own") else [path for path, _ in self._left()]:
                _remove(path)
            return {}
        left = self._left()
        return left[-1][1] if left else {}

    def _left(self) -> list[tuple[Path, dict[str, Any]]]:
        """Journals whose apps are gone, the newest last."""
        found = [(path, entry) for path in self._path.parent.glob("journal-*.json") if (entry := _read(path))]
        return sorted(found, key=lambda one: one[1]["time"])


def _read(path: Path) -> dict[str, Any] | None:
    """A journal whose app is gone."""
    try:
        entry = json.loads(path.read_bytes())
        if entry["format"] != FORMAT or entry["version"] != VERSION or lives(int(entry["process"]), entry["born"]):
            return None
        state = state_to_json(state_from_json(entry["state"]))
        project = None if entry["project"] is None else str(entry["project"])
        adding = {str(name): [*map(str, paths)] for name, paths in (entry["adding"] or {}).items()}
        rest = {"model": str(entry["model"]), "project": project, "adding": adding, "time": float(entry["time"])}
        return {"state": state, **rest}
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        FrnError,
    ):  # half a journal is none
        return None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FrnError(f"{path}: cannot be removed ({error.strerror})") from error
