"""Files that belong together: all of them appear in their folder, or none, whenever the program is killed.

They are written into a new folder beside the old one, which then takes its name, in one step of the system where it has
such a step (Linux). Elsewhere they are renamed one after the other once all of them are written.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import in_the_making, remove_abandoned, sync_folder

MOST_OTHERS = 1000
"""Other entries that a folder may hold to be exchanged as a whole."""
_AT_CWD, _EXCHANGE = -100, 2
"""As Linux's `renameat2` calls them."""


def write_set(folder: Path, files: Mapping[str, bytes], *, instead_of: Collection[str] = ()) -> None:
    """Write files into a folder, in place of those of the same names and of `instead_of`; all others stay.

    FrnError if they cannot be written; the folder is then as it was.
    """
    folder = folder.absolute()
    mine = {*files, *instead_of}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder.parent, [folder.name])
        new = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}")
        new.mkdir()
        with in_the_making(new):
            try:
                for name, data in files.items():
                    _write(new / name, data)
                sync_folder(new)
                _take_place(new, folder, mine)
            finally:
                shutil.rmtree(new, ignore_errors=True)
        sync_folder(folder.parent)
    except OSError as error:
        raise FrnError(f"{folder}: cannot be written ({error.strerror}). What was there is as it was.") from error


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _take_place(new: Path, folder: Path, mine: set[str]) -> None:
    if not folder.exists():
        new.rename(folder)
        return
    shutil.copymode(folder, new)
    others = [entry for entry in folder.iterdir() if entry.name not in mine]
    written = [entry.name for entry in new.iterdir()]
    if len(others) <= MOST_OTHERS and all(entry.is_file() and not entry.is_symlink() for entry in others):
        with contextlib.suppress(OSError, AttributeError):
            for entry in others:
                os.link(entry, new / entry.name)
            _exchange(new, folder)
            for entry in new.iterdir():  # what came in between
                if entry.name not in mine and not (folder / entry.name).exists():
                    entry.rename(folder / entry.name)
            return
    for name in mine - set(written):
        (folder / name).unlink(missing_ok=True)
    for name in written:
        os.replace(new / name, folder / name)
    sync_folder(folder)


def _exchange(one: Path, other: Path) -> None:
    """Let two folders take each other's names. OSError or AttributeError where the system cannot."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "not here")
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    if rename(_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
