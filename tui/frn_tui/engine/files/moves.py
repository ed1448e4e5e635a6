"""Journals of moved photos: one file of JSON lines per move action, for undo, users and crash recovery.

The files are in `moved/` of the state folder (`$FRN_STATE`, on Linux `~/.local/state/frn`). The first line is the plan,
the last one its end. Before a photo is moved, a line records both paths; a second line records the outcome:

    {"plan": [["/card/x.jpg", "jay"], …], "folder": "/sorted", "verdicts": ["jay", …], "crc32": …}
    {"made": "/sorted/jay", "crc32": …}
    {"move": "/card/x.jpg", "to": "/sorted/jay/x.jpg", "bytes": 812345, "mtime_ns": …, "link": null, "crc32": …}
    {"moved": "/card/x.jpg", "to": "/sorted/jay/x.jpg", "bytes": 812345, "mtime_ns": …, "crc32": …}
    {"end": true, "crc32": …}

`"kept"` in place of `"moved"` means that the photo stayed. If the second line is missing because the program was
killed, `settle` checks the files and either finishes the move or records that there was none. If the end is missing,
`find_left` returns what is left of the plan. Undo is recorded in the same way: its lines have the paths exchanged.
"""

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from frn.errors import FrnError
from frn.images.boxes import split_box
from frn.system.files import LOCK, beside, open_to_append, remove_unfinished, sync_path
from frn.system.processes.locks import Lock, lock
from frn_tui.client.file_requests import LeftMoves
from frn_tui.engine.files.placing import is_same_photo, make_folder, remove_twin
from frn_tui.settings.settings import state_folder

TAIL = 1 << 18  # bytes at the end of a journal that are searched for unfinished moves


owned: dict[Path, Lock] = {}  # locks of the journals whose plans this process carries out


@dataclass(slots=True)
class Record:
    plan: list[tuple[str, str]] = field(default_factory=list)  # paths and verdicts; empty in journals of version 0.2
    folder: str = ""
    verdicts: list[str] = field(default_factory=list)
    is_over: bool = False
    folders: set[str] = field(default_factory=set)  # folders that were created for the photos
    moved: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=dict)
    """Moves by both paths, without those that were taken back: their lines before and after."""


_records: dict[Path, Record] = {}  # records of journals in use, each read once for thousands of photos


class MoveJournal:
    """Journal of one move action."""

    def __init__(self, path: str = "") -> None:
        """Continue or create a journal. Raises FrnError if it cannot be written; no photo may then be moved."""
        name = f"{time.strftime('%Y-%m-%d %H.%M.%S')} {os.urandom(4).hex()}.jsonl"
        self.path = Path(path) if path else state_folder() / "moved" / name
        self._lock = beside(self.path, LOCK)
        self._owner = Lock(self.path.with_suffix(".owner"))
        if not path:
            make_folder(self.path.parent)
            for oldest in _journals(self.path.parent)[:-199]:  # number of journals to keep; older ones are removed
                with contextlib.suppress(OSError):
                    oldest.unlink()

    @contextmanager
    def moving(self, source: Path, target: Path, *, is_twin: bool = False) -> Iterator[None]:
        """Record that a photo is about to be moved, and at the end the outcome."""
        with lock(self._lock, self.path):
            link = os.readlink(source) if source.is_symlink() else None  # noqa: PTH115  (as it is written)
            self.write({"move": str(source), "to": str(target), **_stamp(source.stat()), "link": link, "twin": is_twin})
            came = "moved"
            try:
                yield
            except OSError:
                came = "kept"
                raise
            finally:
                with contextlib.suppress(FrnError, OSError):  # `settle` determines the outcome later
                    self.write_outcome(came, source, target)

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
                came = settled(Path(source), target, entry["bytes"])
                with contextlib.suppress(FrnError, OSError):
                    self.write_outcome(came, Path(source), target)
                if came == "moved":
                    places[source] = str(target)
                elif came == "gone":
                    gone.append((source, f"is missing, and so is {target}: a program was killed while moving it"))
            return places, gone
        finally:
            held.release()

    def _unfinished(self) -> dict[str, dict[str, Any]]:
        unfinished = {}
        for entry in self._entries(-TAIL):
            if "move" in entry:
                unfinished[entry["move"]] = entry
            else:
                unfinished.pop(entry.get("moved", entry.get("kept")), None)
        return unfinished

    def begin(self, folder: str, photos: Sequence[tuple[str, str]], verdicts: Sequence[str]) -> None:
        """Record the plan: paths with their verdicts, in folders below `folder`; it belongs to this process."""
        self.write({"plan": list(photos), "folder": folder, "verdicts": list(verdicts)})
        with contextlib.suppress(OSError):  # on a file system without locks, an app may offer the moves of another
            self._owner.acquire()
        owned[self.path] = self._owner

    def end(self) -> None:
        """Record that nothing is left of the plan, or that the user has decided so."""
        self.write({"end": True})
        if (owner := owned.pop(self.path, None)) is not None:
            owner.release()

    def made(self, folder: Path) -> None:
        """Record a folder that the move creates, for `Record.folders`."""
        self.write({"made": str(folder)})

    def record(self) -> "Record":
        """Return what the whole journal records."""
        record = Record()
        begun: dict[str, dict[str, Any]] = {}
        for entry in self._entries():
            if "plan" in entry:
                record.plan, record.folder, record.verdicts = entry["plan"], entry["folder"], entry["verdicts"]
            record.is_over |= bool(entry.get("end"))
            if "made" in entry:
                record.folders.add(entry["made"])
            if "move" in entry:
                begun[entry["move"]] = entry
            if "moved" in entry:
                source, target = entry["moved"], entry["to"]
                if record.moved.pop((target, source), None) is None:  # otherwise it is taken back
                    record.moved[source, target] = (begun.get(source, {}), entry)
        return record

    def find(self, source: str, target: str) -> tuple["Record", dict[str, Any], dict[str, Any]]:
        """Return the journal's record, and what it says of a photo before and after its move."""
        if self.path not in _records or (source, target) not in _records[self.path].moved:
            _records[self.path] = self.record()
        record = _records[self.path]
        return (record, *record.moved.pop((source, target), ({}, {})))  # once taken back, it may be moved again

    def is_running(self) -> bool:
        """Return whether a program is still moving the photos of the plan."""
        if self.path in owned:
            return True
        with contextlib.suppress(OSError):
            if not self._owner.acquire():
                return True
            self._owner.release()
        return False

    def _entries(self, first: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the valid entries from the byte `first` on; nothing if the journal is unreadable."""
        with contextlib.suppress(OSError):
            yield from filter(None, map(_decode, self.path.read_bytes()[first:].splitlines()))

    def write_outcome(self, came: str, source: Path, target: Path) -> None:
        stamp = _stamp(target.lstat()) if came == "moved" else {}
        self.write({came: str(source), "to": str(target), **stamp})

    def write(self, entry: dict[str, object]) -> None:
        try:
            with open_to_append(self.path, 0o600) as file:
                if end := file.seek(0, os.SEEK_END):
                    file.seek(end - 1)
                file.write((b"\n" if file.read() not in (b"", b"\n") else b"") + _encode(entry))
                file.flush()
                os.fsync(file.fileno())
            if end == 0:
                sync_path(self.path.parent)
        except OSError as error:
            raise FrnError(f"{self.path}: cannot be written ({error.strerror}); no photo was moved") from error


def find_left(*, interrupted: bool) -> LeftMoves | None:
    """Return the newest moves that were interrupted, or else the newest that can be taken back."""
    for path in reversed(_journals(state_folder() / "moved")):
        journal = MoveJournal(str(path))
        if (interrupted and any(entry.get("end") for entry in journal._entries(-TAIL))) or journal.is_running():
            continue
        record = journal.record()
        photos = [
            (source, target, bool(before.get("twin")))
            for (source, target), (before, _) in record.moved.items()
            if os.path.lexists(target) and not os.path.lexists(source)
        ]
        done = {source for source, _ in record.moved}
        rest = [(name, verdict) for name, verdict in record.plan if str(split_box(name)[0]) not in done]
        rest = [(name, verdict) for name, verdict in rest if os.path.lexists(split_box(name)[0])]
        if (rest and not record.is_over) if interrupted else photos:
            return LeftMoves(str(path), record.folder, path.stat().st_mtime, photos, rest, record.verdicts)
    return None


def settle_all() -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Finish the moves of programs that are no longer running, in all journals."""
    places: dict[str, str] = {}
    gone: list[tuple[str, str]] = []
    for path in _journals(state_folder() / "moved"):
        moved, lost = MoveJournal(str(path)).settle()
        places |= moved
        gone += lost
    return places, gone


def settled(source: Path, target: Path, size: int) -> Literal["moved", "kept", "gone"]:
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


def _stamp(status: os.stat_result) -> dict[str, int]:
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def is_stamped(status: os.stat_result, entry: Mapping[str, Any]) -> bool:
    """Return whether a file may be the one that a line describes; lines of earlier versions fit any file.

    File systems store times more or less exactly, some only every second one.
    """
    is_near = abs(status.st_mtime_ns - entry.get("mtime_ns", status.st_mtime_ns)) <= 2_000_000_000
    return status.st_size == entry.get("bytes", status.st_size) and is_near


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
