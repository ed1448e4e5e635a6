"""Journals of moved photos: one file of JSON lines per move action, for undo, users and crash recovery.

The files are in `moved/` of the state folder (`$FRN_STATE`, on Linux `~/.local/state/frn`). Before a photo is moved, a
line records both paths; a second line records the outcome:

    {"move": "/card/x.jpg", "to": "/sorted/jay/x.jpg", "bytes": 812345, "crc32": …}
    {"moved": "/card/x.jpg", "to": "/sorted/jay/x.jpg", "crc32": …}

`"kept"` in place of `"moved"` means that the photo stayed. If the second line is missing because the program was
killed, `settle` checks the files and either finishes the move or records that there was none.
"""

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from frn.errors import FrnError
from frn.system.files import LOCK, beside, open_to_append, remove_unfinished, sync_path
from frn.system.processes.locks import Lock, lock
from frn_tui.engine.files.placing import is_same_photo, make_folder, remove_twin
from frn_tui.settings.settings import state_folder

KEPT = 200
"""Number of journals to keep; older ones are removed."""
TAIL = 1 << 18
"""Bytes at the end of a journal that are searched for unfinished moves."""


class MoveJournal:
    """Journal of one move action."""

    def __init__(self, path: str = "") -> None:
        """Continue or create a journal. Raises FrnError if it cannot be written; no photo may then be moved."""
        name = f"{time.strftime('%Y-%m-%d %H.%M.%S')} {os.urandom(4).hex()}.jsonl"
        self.path = Path(path) if path else state_folder() / "moved" / name
        self._lock = beside(self.path, LOCK)
        if not path:
            make_folder(self.path.parent)
            for oldest in _journals(self.path.parent)[: -KEPT + 1]:
                with contextlib.suppress(OSError):
                    oldest.unlink()

    @contextmanager
    def moving(self, source: Path, target: Path) -> Iterator[None]:
        """Record that a photo is about to be moved, and at the end the outcome."""
        with lock(self._lock, self.path):
            self._write({"move": str(source), "to": str(target), "bytes": source.stat().st_size})
            came = "moved"
            try:
                yield
            except OSError:
                came = "kept"
                raise
            finally:
                with contextlib.suppress(FrnError):  # `settle` determines the outcome later
                    self._write({came: str(source), "to": str(target)})

    def settle(self) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Finish the moves of a killed program; return moved photos by source, and those found at neither path."""
        places: dict[str, str] = {}
        gone: list[tuple[str, str]] = []
        held = Lock(self._lock)
        with contextlib.suppress(OSError):
            if not held.acquire():  # its program is still moving photos
                return places, gone
        try:
            for source, entry in self._unfinished().items():
                target = Path(entry["to"])
                remove_unfinished(target)
                came = _settled(Path(source), target, entry["bytes"])
                with contextlib.suppress(FrnError):
                    self._write({came: source, "to": str(target)})
                if came == "moved":
                    places[source] = str(target)
                elif came == "gone":
                    gone.append((source, f"is missing, and so is {target}: a program was killed while moving it"))
            return places, gone
        finally:
            held.release()

    def _unfinished(self) -> dict[str, dict[str, Any]]:
        """Return the lines without an outcome, by photo."""
        unfinished = {}
        for entry in self._entries():
            if "move" in entry:
                unfinished[entry["move"]] = entry
            else:
                unfinished.pop(next(iter(entry.values())), None)
        return unfinished

    def _entries(self) -> Iterator[dict[str, Any]]:
        """Yield the valid entries in the last `TAIL` bytes; nothing if the journal is unreadable."""
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            yield from filter(None, map(_decode, file))

    def _write(self, entry: dict[str, object]) -> None:
        try:
            with open_to_append(self.path, 0o600) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 1))
                file.write((b"\n" if file.read(1) not in (b"", b"\n") else b"") + _encode(entry))
                file.flush()
                os.fsync(file.fileno())
            if end == 0:
                sync_path(self.path.parent)
        except OSError as error:
            raise FrnError(f"{self.path}: cannot be written ({error.strerror}); no photo was moved") from error


def settle_all() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Finish the moves of programs that are no longer running, in all journals."""
    places: dict[str, str] = {}
    gone: list[tuple[str, str]] = []
    for path in _journals(state_folder() / "moved"):
        moved, lost = MoveJournal(str(path)).settle()
        places |= moved
        gone += lost
    return places, gone


def _settled(source: Path, target: Path, size: int) -> Literal["moved", "kept", "gone"]:
    """Return the outcome of a move; one to another disk that lacks only its last step is finished."""
    arrived = target.lstat().st_size if os.path.lexists(target) else None
    if not os.path.lexists(source):
        return "gone" if arrived is None else "moved"
    with contextlib.suppress(OSError):
        if arrived == 0 and size:  # placeholder of a move without `renameat2`
            target.unlink()
        elif arrived == size and is_same_photo(source, target):
            remove_twin(source, target)
            return "moved"
    return "kept"


def _encode(entry: dict[str, object]) -> bytes:
    """Return a line with its checksum; bytes of a name that are not UTF-8 are escaped."""
    checked = {**entry, "crc32": _checksum(entry)}
    return json.dumps(checked, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _decode(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line, or None if it is incomplete or changed."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError, AttributeError):
        entry: dict[str, Any] = json.loads(line)
        if entry.pop("crc32") == _checksum(entry):
            return entry
    return None


def _checksum(entry: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(entry).encode())


def _journals(folder: Path) -> list[Path]:
    """Return the journals, oldest first; their names start with the time."""
    return sorted(path for path in folder.glob("[0-9]*-*-* *.*.* ????????.jsonl") if path.is_file())
