"""Files: written so that a kill, a full disk or a power cut leaves the old one or the new one; read only if they end.

And where caches live.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from frn.errors import FrnError, one_line

if sys.platform != "win32":
    import fcntl

JUST_MADE = 1.0
"""Seconds within which a file may not be marked yet as being written."""
STEM = 60
"""Characters of a file's name in that of its temporary file; systems allow 255 bytes, and a character takes up to 4."""
MAX_JSON = 64 << 20
"""Bytes of a small file of ours, if nothing else is said."""
MAX_LINES = 1 << 30
"""Bytes of a file of lines that grows: the metrics of ten million steps."""
_PIECE = 1 << 20
"""Bytes that a file may be longer than it says (those of /proc say 0) and still be read at once."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` beside `path`, sync it, and rename it over `path`, or over the file that a link there leads to.

    What is no text, as in the name of a file that is not UTF-8, is written as an escape, which JSON reads back.
    FrnError if it cannot be written, or `path` is a device or pipe; it is then as it was.
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    temporary = None
    try:
        if is_there(path) and not path.is_file() and not path.is_dir():
            raise FrnError(f"{path}: is a device or pipe, and a file would take its place. Give another name.")
        place = Path(os.path.realpath(path)) if path.is_symlink() else path
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep_once(place)
        new = str(place.with_name(f".{_stem(place)}.{os.urandom(4).hex()}"))
        # The system applies the umask; asking for it would change it for every thread meanwhile.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        temporary = new
        with os.fdopen(descriptor, "wb") as file:
            _hold(descriptor)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
        sync_folder(place.parent)
    except OSError as error:
        raise FrnError(f"{path}: cannot be written ({error.strerror}, {len(data):,} bytes)") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def is_folder(path: Path | str) -> bool:
    """As `Path.is_dir`, which raises for a name that is too long, or lies in a folder that is closed to us."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: Path | str) -> bool:
    """As `Path.is_file`, which raises where `Path.is_dir` does."""
    return os.path.isfile(path)  # noqa: PTH113


def is_there(path: Path | str) -> bool:
    """As `Path.exists`, which raises where `Path.is_dir` does."""
    return os.path.exists(path)  # noqa: PTH110


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a file; never of a pipe or device, which could have no end.

    FrnError if it is missing, cannot be read, is no regular file, or has more than `most` bytes.
    """
    try:
        # A pipe without a writer would hold the opening, too, if it were not for this.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FrnError(f"{path}: is not a regular file")
            size = status.st_size
            data = _read(file, size, most) if size <= most else b""
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        if isinstance(error, FrnError):
            raise
        raise FrnError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if max(size, len(data)) > most:
        raise FrnError(f"{path}: has {max(size, len(data)) / 2**20:.3g} MiB; the limit is {most / 2**20:.3g} MiB")
    return data


def _read(file: IO[bytes], size: int, most: int) -> bytes:
    """All of a file, or more than `most` bytes if there are: it may have grown, and asking for that takes the room."""
    parts, left = [], most + 1
    while left and (part := file.read(min(left, size + _PIECE))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def require_regular(path: Path, most: int) -> Path:
    """The path of a file that a library will open by itself. FrnError as `read_regular`, without reading it."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise FrnError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not stat.S_ISREG(status.st_mode):
        raise FrnError(f"{path}: is not a regular file")
    if status.st_size > most:
        raise FrnError(f"{path}: has {status.st_size / 2**20:.3g} MiB; the limit is {most / 2**20:.3g} MiB")
    return path


def read_json(path: Path, most: int = MAX_JSON) -> Any:
    """The value of a JSON file. FrnError as `read_regular`, or if it is not JSON."""
    data = read_regular(path, most)
    try:
        return decode_json(data)
    except FrnError as error:
        raise FrnError(f"{path}: {error}") from error


def decode_json(data: bytes) -> Any:
    """The value of a JSON text. FrnError if it is none, or nested without end."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrnError(f"it is not JSON ({one_line(error)})") from error


def cache_folder() -> Path:
    """Where caches live: $FRN_CACHE, where `frn cache move` has put them, or the user's cache folder."""
    if override := os.environ.get("FRN_CACHE"):
        return Path(override)
    from platformdirs import user_cache_path

    with contextlib.suppress(FrnError):
        if moved := read_regular(cache_pointer(), 1 << 16).decode(errors="surrogateescape").strip():
            return Path(moved)
    return user_cache_path("frn", appauthor=False)


def cache_pointer() -> Path:
    """The file that names the folder which the caches were moved to."""
    from platformdirs import user_config_path

    return user_config_path("frn", appauthor=False) / "cache-folder"


def _stem(path: Path) -> str:
    """What the temporary file of a file is called by: all of its name, unless that would make too long a name."""
    return path.name[:STEM]


_swept: set[Path] = set()


def _sweep_once(path: Path) -> None:
    """Remove what killed writers of a file have left, when this program first writes it."""
    if path not in _swept:
        _swept.add(path)
        remove_abandoned(path.parent, [_stem(path)])


def remove_abandoned(folder: Path, names: Collection[str]) -> None:
    """Remove what killed programs left half written beside the files and folders of these names."""
    temporary = re.compile(rf"\.({'|'.join(map(re.escape, names))})\.[0-9a-f]{{8}}")
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if temporary.fullmatch(entry.name) and is_abandoned(Path(entry.path)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)


@contextlib.contextmanager
def in_the_making(folder: Path) -> Iterator[None]:
    """Mark a folder as one that this process is filling; the mark ends with the process."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _hold(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Wait until no other process, or thread, holds the lock, a file that is gone afterwards; then hold it.

    A system without such locks lets everybody in. OSError if the file cannot be made.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = _lock_itself(lock)
    try:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock_itself(lock: Path) -> int:
    """Open and lock the file of that name: what was waited for may be gone by now, and another one in its place."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)


_claimed: dict[tuple[int, int], int] = {}
"""Folders that this process holds, by device and number, and their descriptors."""


def claim(folder: Path) -> bool:
    """Make a folder, and hold it until `release` or this process's end; False if another process does.

    A system without such locks lets everybody in. OSError if the folder cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        return True
    descriptor = os.open(folder, os.O_RDONLY)
    status = os.fstat(descriptor)
    place = status.st_dev, status.st_ino
    if place in _claimed and os.fstat(_claimed[place]).st_nlink:
        os.close(descriptor)
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    except OSError:  # a file system without locks
        pass
    _claimed[place] = descriptor
    return True


def release(folder: Path) -> None:
    """Let others have a folder again that this process may hold."""
    with contextlib.suppress(OSError):
        status = folder.stat()
        if (descriptor := _claimed.pop((status.st_dev, status.st_ino), None)) is not None:
            os.close(descriptor)


def is_abandoned(path: Path) -> bool:
    """Whether nobody is writing a file, or filling a folder, any more; unknown, and so False, on some systems."""
    if sys.platform == "win32":
        return False
    try:
        if not 0 <= time.time() - path.stat().st_mtime < JUST_MADE:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            finally:
                os.close(descriptor)
    except OSError:  # somebody holds it, or it is gone
        pass
    return False


def _hold(descriptor: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def discard_output(descriptor: int) -> None:
    """What was not written to it goes nowhere: Python would try once more at its end, and end with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder outlast a power cut."""
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
