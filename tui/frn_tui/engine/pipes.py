"""The engine's way to the app: a pipe that nothing else in the process can write to."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from frn.system.processes.messages import encode

MAX_LOG = 1 << 20
"""Bytes from which on a log is started again."""


def redirect_stdout(log: Path) -> int:
    """Send what anything prints, on either stream, to the log; returns a descriptor of what was standard output."""
    pipe = os.dup(1)
    descriptor = _open_log(log)
    os.dup2(descriptor, 2)
    os.dup2(2, 1)
    os.close(descriptor)
    return pipe


def _open_log(log: Path) -> int:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        full = log.is_file() and log.stat().st_size > MAX_LOG
        return os.open(log, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if full else os.O_APPEND), 0o600)
    except OSError:  # a full or read-only disk: do without
        return os.open(os.devnull, os.O_WRONLY)


class Sender:
    """Writes messages, whole ones, from any thread."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def __call__(self, message: Mapping[str, object]) -> None:
        """Write one message. Where nobody reads any more the process has no purpose left, and ends."""
        line = memoryview(encode(message))
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._pipe, line) :]
            except OSError:
                os._exit(1)
