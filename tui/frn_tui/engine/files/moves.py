"""What was moved where: one file of JSON lines for each act of moving, for undo, for people, and for after a kill.

The files lie in `moved/` of the state folder (`$FRN_STATE`, on Linux `~/.local/state/frn`). Before a photo is moved a
line says from where to where; a second line says what came of it:

    {"move": "/card/x.jpg", "to": "/sorted/jay/x.jpg", "bytes": 812345, "crc32": …}
    {"moved": "/card/x.jpg", "to": "/sorted/jay/x.jpg", "crc32": …}

`"made"` in the first line names the folders that were made for the photo, which go again when it is moved back.
`"kept"` in place of `"moved"` says that the photo stayed. Where the second line is missing because the program was
killed, `settle` looks at the files, finishes the move or takes note that there was none.
"""

import contextlib
import errno
import json
import os
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from frn.errors import FrnError
from frn.system.files import LOCK, beside, remove_unfinished, sync_folder
from frn.system.processes.locks import Lock, lock
from frn_tui.engine.files.placing import is_same_photo, make_folder, remove_twin
from frn_tui.settings.settings import state_folder

KEPT = 200
"""Journals; older ones are removed."""
TAIL = 1 << 18
"""Bytes of a journal's end in which a move that is not finished stands."""
_NAME = re.compile(r"\d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d [0-9a-f]{8}\.jsonl")


class MoveJournal:
    """The journal of one act of moving photos."""

    def __init__(self, path: str = "") -> None:
        """Continue a journal, or begin one. FrnError if it cannot be written: then no photo may be moved."""
        name = f"{time.strftime('%Y-%m-%d %H.%M.%S')} {os.urandom(4).hex()}.jsonl"
        self.path = Path(path) if path else _folder() / name
        if not path:
            make_folder(self.path.parent)
            _remove_oldest(self.path.parent)

    @contextmanager
    def moving(self, source: Path, target: Path, made: Sequence[Path] = ()) -> Iterator[None]:
        """Write down that a photo is about to be moved, into folders just `made`, and, at the end, what came of it."""
        with lock(self._lock, self.path):
            entry = {"move": str(source), "to": str(target), "bytes": source.stat().st_size}
            self._write(entry | ({"made": [*map(str, made)]} if made else {}))
            came = "moved"
            try:
                yield
            except OSError:
                came = "kept"
                raise
            finally:
                self._note({came: str(source), "to": str(target)})

    def remove_empty(self, folder: Path) -> None:
        """Remove a folder that was made for moved photos, and those above it; the first that is not empty stays."""
        with contextlib.suppress(OSError):
            made = set() if any(folder.iterdir()) else {one for e in self._entries(0) for one in e.get("made", ())}
            while str(folder) in made:
                folder.rmdir()
                folder = folder.parent

    def settle(self) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Finish what a killed program was moving: photos moved, from where to where, and those found at neither."""
        places: dict[str, str] = {}
        gone: list[tuple[str, str]] = []
        held = Lock(self._lock)
        with contextlib.suppress(OSError):
            if not held.acquire():  # its program is still moving
                return places, gone
        try:
            for source, entry in self._unfinished().items():
                target = Path(entry["to"])
                remove_unfinished(target)
                came = _settled(Path(source), target, entry["bytes"])
                self._note({came: source, "to": str(target)})
                if came == "moved":
                    places[source] = str(target)
                elif came == "gone":
                    why = f"is no longer there, nor at {target}; a program was killed while it moved it"
                    gone.append((source, why))
            return places, gone
        finally:
            held.release()

    @property
    def _lock(self) -> Path:
        return beside(self.path, LOCK)

    def _unfinished(self) -> dict[str, dict[str, Any]]:
        """Lines without an outcome, by the photo."""
        unfinished = {}
        for entry in self._entries(TAIL):
            if "move" in entry:
                unfinished[entry["move"]] = entry
            else:
                unfinished.pop(next(iter(entry.values())), None)
        return unfinished

    def _entries(self, tail: int) -> Iterator[dict[str, Any]]:
        """The whole lines in the last `tail` bytes; 0 takes all. None of a journal that cannot be read."""
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - tail) if tail else 0)
            yield from filter(None, map(_decode, file))

    def _note(self, entry: dict[str, object]) -> None:
        """Write an outcome; a line that cannot be written is made up for by `settle`."""
        with contextlib.suppress(FrnError):
            self._write(entry)

    def _write(self, entry: dict[str, object]) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            with open(descriptor, "a+b", buffering=0) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 1))
                line = (b"\n" if file.read(1) not in (b"", b"\n") else b"") + _encode(entry)
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            if end == 0:
                sync_folder(self.path.parent)
        except OSError as error:
            raise FrnError(
                f"{self.path}: cannot be written ({error.strerror}); without it no photo is moved"
            ) from error


def settle_all() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Finish what programs that are gone were moving, in all journals."""
    places: dict[str, str] = {}
    gone: list[tuple[str, str]] = []
    for path in _journals(_folder()):
        moved, lost = MoveJournal(str(path)).settle()
        places |= moved
        gone += lost
    return places, gone


def _settled(source: Path, target: Path, size: int) -> Literal["moved", "kept", "gone"]:
    """What became of a photo; a move to another disk that lacks only its last step is finished."""
    arrived = target.lstat().st_size if os.path.lexists(target) else None
    if not os.path.lexists(source):
        return "gone" if arrived is None else "moved"
    with contextlib.suppress(OSError):
        if arrived == 0 and size:  # a name that was taken for the photo, on disks without `renameat2`
            target.unlink()
        elif arrived == size and is_same_photo(source, target):
            remove_twin(source, target)
            return "moved"
    return "kept"


def _encode(entry: dict[str, object]) -> bytes:
    """A line with its checksum; bytes of a name that are not UTF-8 become escapes."""
    checked = {**entry, "crc32": _checksum(entry)}
    return json.dumps(checked, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def _decode(line: bytes) -> dict[str, Any] | None:
    """The entry of a line, or None if it is torn or was changed."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError, AttributeError):
        entry: dict[str, Any] = json.loads(line)
        if entry.pop("crc32") == _checksum(entry):
            return entry
    return None


def _checksum(entry: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(entry).encode())


def _folder() -> Path:
    return state_folder() / "moved"


def _journals(folder: Path) -> list[Path]:
    """The oldest first: their names begin with the time."""
    return sorted(path for path in folder.glob("*.jsonl") if _NAME.fullmatch(path.name) and path.is_file())


def _remove_oldest(folder: Path) -> None:
    for path in _journals(folder)[: -KEPT + 1]:
        with contextlib.suppress(OSError):
            path.unlink()
