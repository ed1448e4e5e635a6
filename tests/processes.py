"""Run programs in separate processes that are killed with their children at a time limit or the end of the test."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SECONDS = 120  # seconds within which a program must end, even on a busy machine


@contextlib.contextmanager
def started(words: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a program with `subprocess.Popen` options; at the end, kill it and all processes in its session."""
    with subprocess.Popen([str(word) for word in words], start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a program that leads a session, and all other processes in the session."""
    if os.name == "nt":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def run(
    words: Sequence[object], *, timeout: float = SECONDS, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to completion like `subprocess.run`, with output as text. Raises TimeoutExpired at the limit."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    with started(words, **settings) as process:
        said, told = process.communicate(timeout=timeout)
    assert not (check and process.returncode), told
    return subprocess.CompletedProcess([str(word) for word in words], process.returncode, said, told)


def lives(pid: int) -> bool:
    """Return whether a process exists and is not a zombie that waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int, word: str = "") -> set[int]:
    """Return the descendants of a process whose command contains a word."""
    lines = [line.split(None, 2) for line in run(["ps", "-eo", "pid=,ppid=,args="]).stdout.splitlines()]
    below = {pid}
    while more := {int(line[0]) for line in lines if int(line[1]) in below} - below:
        below |= more
    return {int(line[0]) for line in lines if int(line[0]) in below - {pid} and word in line[2]}
