"""Locks between processes: one file each, which contains the name of its holder and is removed on release.

A lock is released when its process ends. On a file system without locks, no process is kept waiting.
"""

import contextlib
import errno
import math
import os
import shlex
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from frn.errors import FrnError, FrnWarning, shorten
from frn.system.processes.forks import after_fork

WARN_AFTER = 2.0  # seconds of waiting before a warning names the holder
GIVE_UP_AFTER = 60.0  # seconds of waiting before an error names the holder
SIGNED = b"process "  # beginning of a lock file; one with other content is not ours, so it is not emptied
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Lock:
    """A lock that this process can hold until `release` or its exit."""

    def __init__(self, path: Path, *, process: int | None = None) -> None:
        """Create a lock whose file names `process` as the holder; by default this one."""
        from filelock import FileLock  # imported here because most commands need no lock

        self.path = path
        self._process = process or os.getpid()
        self._status: os.stat_result | None = None
        self._lock = FileLock(path, thread_local=False, fallback_to_soft=False, on_acquired=self._sign)
        after_fork(self, Lock._forget)

    def is_held(self) -> bool:
        """Return whether this process holds the lock and its file still exists."""
        with contextlib.suppress(OSError):
            return self._status is not None and os.path.samestat(self._status, self.path.lstat())
        return False

    def acquire(self, timeout: float = 0.0) -> bool:
        """Take the lock within `timeout` seconds; return whether it is held.

        Raises OSError if its file cannot be created.
        """
        from filelock import Timeout

        try:
            self._lock.acquire(timeout=timeout)
        except Timeout:
            return False
        except OSError as error:
            if error.errno not in NO_LOCKS:
                require_lock(self.path)  # says more about a link
                raise
        return True

    def release(self) -> None:
        """Release the lock; the next holder creates a new file."""
        with contextlib.suppress(OSError):  # Windows keeps open files
            if self.is_held():
                self.path.unlink()
        self._status = None
        self._lock.release()

    def _sign(self, descriptor: int) -> None:
        require_lock(self.path)  # it may have been replaced meanwhile
        self._status = os.fstat(descriptor)
        command = shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])  # noqa: PTH119
        with contextlib.suppress(OSError):  # on a full disk, the lock has no name
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, f"process {self._process} ({shorten(command, 80)})".encode(errors="replace"))

    def _forget(self) -> None:
        """Leave the file to the parent process after a fork, as `FileLock` also does."""
        self._status = None


def require_lock(path: Path) -> None:
    """Raise OSError if something that is not a lock of `frn` has the name of one."""
    with contextlib.suppress(FileNotFoundError, PermissionError):  # Windows lets nobody read a held one
        status = path.lstat()
        is_lock = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        if not is_lock or path.read_bytes()[: len(SIGNED)] not in (b"", SIGNED):
            raise OSError(errno.EEXIST, f"{path} is not a lock of frn. Rename it")


def holder(path: Path) -> str:
    """Return the current or last holder of a lock: "process 71 (frn enroll ...)"."""
    with contextlib.suppress(OSError):
        if said := path.read_bytes()[:400]:
            return shorten(said.decode(errors="replace"))
    return "another program"


@contextlib.contextmanager
def lock(path: Path, what: object, *, give_up_after: float = GIVE_UP_AFTER) -> Iterator[None]:
    """Wait for a lock and hold it; a warning names its holder after two seconds.

    Raises FrnError if another process still holds it after `give_up_after` seconds, OSError if it cannot be created.
    """
    held = Lock(path)
    if not held.acquire(WARN_AFTER):
        warnings.warn(f"{what}: waiting for {holder(path)}, which is writing this file", FrnWarning, stacklevel=3)
        if not held.acquire(-1 if math.isinf(give_up_after) else give_up_after - WARN_AFTER):
            raise FrnError(
                f"{what}: {holder(path)} is still writing this file. Wait until it ends, or stop it, and try again."
            )
    try:
        yield
    finally:
        held.release()
