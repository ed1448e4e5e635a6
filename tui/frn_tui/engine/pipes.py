"""Output of the engine: a pipe to the app that nothing else in the process can write to."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from frn.system.processes.messages import encode

MAX_LOG = 1 << 20
"""Bytes above which a log is restarted."""


def redirect_stdout(log: Path) -> int:
    """Redirect both output streams to the log and return a descriptor of the original standard output."""
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
    except OSError:  # full or read-only disk: work without a log
        return os.open(os.devnull, os.O_WRONLY)


class Sender:
    """Writes whole messages from any thread."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def __call__(self, message: Mapping[str, object]) -> None:
        """Write a message; exit the process if nobody reads any more."""
        line = memoryview(encode(message))
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._pipe, line) :]
            except OSError:
                os._exit(1)
