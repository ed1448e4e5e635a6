"""Sets of files that appear in their folder completely or not at all, even if the program is killed.

A new folder is filled under a temporary name next to its place, and renamed at the end. A folder without other files is
exchanged in one system call on Linux; otherwise the files are replaced one by one.
"""

import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import LOCK, PART, beside, remove, require_writable, sync_path, write_atomically
from frn.system.processes.locks import lock

_AT_CWD, _EXCHANGE = -100, 2
"""Constants of Linux's `renameat2`."""


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` to fill; at the end it is synced and renamed to `path`.

    An exception in the block leaves nothing behind. Raises FrnError if `path` is a folder that is not empty, or cannot
    be written.
    """
    path = path.absolute()
    with _at_work(path) as new:
        yield new
        if path.exists() and any(path.iterdir()):
            raise FrnError(f"{path}: already exists. Choose a folder that does not exist yet.", code="exists")
        sync_tree(new)
        os.rename(new, path)  # noqa: PTH104


def require_new_folder(path: Path) -> None:
    """Raise FrnError, before the work, if `new_folder` could not create a folder."""
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise FrnError(f"{path}: already exists. Choose a folder that does not exist yet.", code="exists")
    if not path.exists():
        require_writable(path)


def write_set(folder: Path, files: Mapping[str, bytes], *, instead_of: Collection[str] = ()) -> None:
    """Write files into a folder, replacing those of the same names and of `instead_of`; other files are kept.

    Raises FrnError if the files cannot be written.
    """
    folder = Path(os.path.realpath(folder))
    mine = {*files, *instead_of}
    if not folder.exists() or _is_exchangeable(folder, mine):
        with _at_work(folder) as new:
            for name, data in files.items():
                (new / name).write_bytes(data)
                if (folder / name).is_file():
                    shutil.copymode(folder / name, new / name)
            sync_tree(new)
            if not folder.exists():
                os.rename(new, folder)  # noqa: PTH104
                return
            shutil.copymode(folder, new)
            if _exchange(new, folder):
                for entry in new.iterdir():  # keep files that were added during the write
                    if entry.name not in mine:
                        entry.rename(folder / entry.name)
                return
    for name, data in files.items():
        write_atomically(folder / name, data)
    for name in mine - files.keys():
        (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _at_work(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, for one process at a time; it is removed at the end unless renamed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock(beside(path, LOCK), path):
            new = beside(path, PART)
            remove(new)
            new.mkdir()
            try:
                yield new
            finally:
                remove(new)
            sync_path(path.parent)
    except OSError as error:
        raise FrnError(f"{path}: cannot be written ({error.strerror or error})") from error


def _is_exchangeable(folder: Path, mine: set[str]) -> bool:
    """Return whether a folder may be exchanged: it has only our files and is not a mount or the current folder."""
    entries = list(os.scandir(folder))
    is_ours = all(entry.name in mine and entry.is_file(follow_symlinks=False) for entry in entries)
    return is_ours and bool(entries) and not os.path.ismount(folder) and not os.path.samefile(folder, os.curdir)  # noqa: PTH121


def sync_tree(folder: Path) -> None:
    """Sync all files of a folder and their names, so that they survive a power cut."""
    for place, _, names in os.walk(folder):
        for name in (*names, "."):
            sync_path(Path(place, name))


def _exchange(one: Path, other: Path) -> bool:
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and not rename(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE)
