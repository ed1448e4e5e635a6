"""Names for files, and placing photos: no file is ever replaced, and photos survive if the app is killed."""

import contextlib
import ctypes
import errno
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import LOCK, PART, beside, remove, sha256, sync_path
from frn.system.processes.locks import lock

_AT_CWD, _NO_REPLACE = -100, 1  # constants of Linux's `renameat2`
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_PIECE = 1 << 20


def make_folder(folder: Path) -> list[Path]:
    """Create a folder and its parents, synced to the disk; return those that are new."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_path(made.parent)
    return missing


def rename_new(source: Path, target: Path) -> None:
    """Rename a file to an unused name in one step. Raises FileExistsError if the name is taken."""
    if os.name == "nt":  # fails if the target exists
        source.rename(target)
        return
    try:
        rename_no_replace(source, target)
        return
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))  # reserve the name
    try:
        os.replace(source, target)
    except OSError:
        target.unlink()
        raise


def rename_no_replace(source: Path, target: Path) -> None:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if rename(_AT_CWD, os.fsencode(source), _AT_CWD, os.fsencode(target), _NO_REPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


def copy_new(source: Path, target: Path) -> os.stat_result:
    """Copy a file to an unused name, synced to the disk.

    Returns the status of the copied file, which may have been replaced since. Raises FileExistsError if the name is
    taken, and OSError if another program has been writing it for a minute.
    """
    part = beside(target, PART)
    try:
        with lock(beside(target, LOCK), target):
            remove(part)  # left by a killed program
            try:
                with source.open("rb") as old, part.open("xb") as new:
                    copied = os.fstat(old.fileno())
                    shutil.copyfileobj(old, new, _PIECE)
                    new.flush()
                    with contextlib.suppress(OSError):  # FAT has no file modes
                        shutil.copystat(source, part)
                    os.fsync(new.fileno())
                    rename_new(part, target)
            finally:
                part.unlink(missing_ok=True)
    except FrnError as error:  # a photo that times out must not stop others
        raise OSError(errno.EBUSY, str(error)) from error
    sync_path(target.parent)
    return copied


def move_new(source: Path, target: Path) -> None:
    """Move a file to an unused name; a link becomes a copy of its target, because elsewhere it might be broken.

    Raises OSError if the name is taken, or if the file changes while it is copied to another disk or cannot be removed
    there; it then stays in place.
    """
    if not source.is_symlink():
        try:
            rename_new(source, target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    copied = copy_new(source, target)
    try:
        now = source.stat()
        unchanged = (now.st_size, now.st_mtime_ns) == (copied.st_size, copied.st_mtime_ns)
        if not (unchanged and os.path.samestat(now, copied)):
            raise OSError(errno.EBUSY, "changed during the copy")
        source.unlink()
    except FileNotFoundError:  # deleted meanwhile: only the copy is left
        pass
    except OSError:  # it stays in place, for example on a read-only disk
        target.unlink()
        raise


def is_same_photo(path: Path, other: Path) -> bool:
    """Return whether another regular file has exactly the same bytes."""
    try:
        status = other.lstat()
        is_alike = stat.S_ISREG(status.st_mode) and status.st_size == path.stat().st_size
        return is_alike and sha256(path) == sha256(other)
    except OSError:
        return False


def remove_twin(path: Path, twin: Path) -> None:
    """Remove a file that has an identical twin, after syncing the twin to the disk.

    Raises OSError if they now differ.
    """
    with twin.open("rb") as file:
        os.fsync(file.fileno())
    sync_path(twin.parent)
    if path.samefile(twin) or not is_same_photo(path, twin):
        raise OSError(errno.EBUSY, "is no longer the same photo")
    path.unlink()


def safe_name(name: str) -> str:
    """Return a name that is valid on every file system."""
    text = name.encode(errors="replace").decode()
    safe = "".join(c if c.isprintable() and c not in '\\/:*?"<>|' else "_" for c in text)
    stem, ending = os.path.splitext(safe)  # noqa: PTH122
    if len(ending.encode()) > 20:  # not a suffix
        stem, ending = safe, ""
    return stem.encode()[:100].decode(errors="ignore").strip(" .") + ending.rstrip(" .") or "_"


def numbered(name: str) -> Iterator[str]:
    """Yield the name, then the name with 2, 3 and so on before its suffix."""
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem else (name, "")
    yield name
    for number in itertools.count(2):
        yield f"{stem}-{number}{ending}"


def fresh_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken; names that differ only in case count as equal."""
    fresh = next(one for one in numbered(name) if one.casefold() not in taken)
    taken.add(fresh.casefold())
    return fresh
