"""Run a program on a pseudo-terminal and time its output; the terminal displays nothing and answers no query."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from bench.screen import Screen
from frn.errors import FrnError

COLUMNS, ROWS = 140, 40
TIMEOUT = 60.0  # seconds after which expected output is considered missing
PICTURES = 0.6  # seconds of silence after which no further image is expected
KEYS = {"down": b"\x1b[B", "up": b"\x1b[A", "escape": b"\x1b"}


class Terminal:
    """Starts a program and measures times from its start or from the last key."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], folder: Path) -> None:
        """Start the program in the given folder."""
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = Screen(COLUMNS, ROWS)
        self.written = 0  # bytes that the program has written since the last key
        self._began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=dict(environ), start_new_session=True, cwd=folder
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program if it is still running."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.wait(5)
        except FrnError:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def press(self, keys: str | bytes) -> None:
        """Send a key from `KEYS`, or raw bytes, and ignore all earlier output."""
        self.settle(0)
        self._screen.touched, self.written = set(), 0
        self._began = time.perf_counter()
        os.write(self._master, KEYS[keys] if isinstance(keys, str) else keys)

    def paste(self, text: str) -> None:
        """Send text in the way in which a terminal sends a dropped file."""
        self.press(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def until(self, mark: str) -> float:
        """Return the milliseconds from the last key until a new line contains a text.

        Raises FrnError if the text does not appear, or the program ends.
        """
        while mark not in self._screen.new_text():
            remaining = self._began + TIMEOUT - time.perf_counter()
            if remaining <= 0 or not self._read(remaining):
                raise FrnError(f"the program did not show {mark!r}; it wrote:\n{self._screen.new_text()}")
        return 1000 * (time.perf_counter() - self._began)

    def settle(self, quiet: float = 0.2) -> None:  # seconds of silence after which output is considered complete
        """Read until there is no more output."""
        deadline = time.perf_counter() + TIMEOUT
        while self._read(quiet) and time.perf_counter() < deadline:
            pass

    def wait(self, seconds: float = TIMEOUT) -> float:
        """Return the milliseconds until the program ends.

        Raises:
            FrnError: if the program does not end.
        """
        deadline = time.perf_counter() + seconds
        while self.process.poll() is None:
            if time.perf_counter() > deadline:
                raise FrnError("the program does not end")
            self._read(0.005)
        return 1000 * (time.perf_counter() - self._began)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            output = os.read(self._master, 1 << 16)
        except OSError:  # the program has closed its end of the terminal
            time.sleep(0.001)
            return False
        self._screen.feed(output)
        self.written += len(output)
        return bool(output)

    @property
    def below(self) -> list[int]:
        """Return all processes that the program started, directly or through another process."""
        words = _ps("-eo", "pid=,ppid=")
        parents = dict(zip(map(int, words[::2]), map(int, words[1::2]), strict=True))
        processes = {self.process.pid}
        while more := {child for child, parent in parents.items() if parent in processes} - processes:
            processes |= more
        return sorted(processes - {self.process.pid})


def resident(pid: int) -> float:
    """Return the memory of a process in MiB."""
    return int(_ps("-o", "rss=", "-p", str(pid))[0]) / 1024


def alive(pids: Sequence[int]) -> list[int]:
    """Return the processes among these that still run."""
    words = _ps("-eo", "pid=")
    return sorted(set(pids) & set(map(int, words)))


def _ps(*options: str) -> list[str]:
    return subprocess.run(["ps", *options], capture_output=True, text=True, check=True).stdout.split()
