"""Answers to many photos in a file that grows line by line: a run that was stopped, or killed, goes on behind them.

Each line is one JSON object of a photo. It carries `run`, a digest of what decided the answer, so that no file mixes
answers of different classes or models.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from frn.errors import FrnError
from frn.inference.classifier import Classifier
from frn.system.files import require_regular

if sys.platform != "win32":
    import fcntl

MAX_LINE = 64 << 20
"""Bytes of a line; ten thousand classes take one."""
BEGINNING = b'{"image": "'
"""How each line begins; a last one that does not was not begun by us, and is not ours to remove."""


class ResultsFile:
    """A `.jsonl` file that lines are added to, by one process at a time."""

    def __init__(self, path: Path, run: str, *, resume: bool) -> None:
        """Begin a file, or with `resume` find out which photos are in it; half a line at its end goes.

        FrnError if it is there already, holds answers of another run, or cannot be written.
        """
        self.path, self.run = path, run
        self.done: set[str] = set()
        """The photos that have a line."""
        self.failed: set[str] = set()
        """Those among them whose line says why they could not be read."""
        if path.exists() and not resume:
            raise FrnError(f"{path}: is there already. Add --resume to go on with it, or give another --out.")
        if path.exists():
            require_regular(path, sys.maxsize)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115  (closed by __exit__)
        except OSError as error:
            raise FrnError(f"{path}: cannot be written ({error.strerror})") from error
        try:
            self._lock()
            self._file.truncate(self._read())
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        # What a full disk did not take is written again by closing: the error that is under way says it better.
        with contextlib.suppress(OSError) if kind else contextlib.nullcontext():
            self._file.close()

    def add(self, line: Mapping[str, object]) -> None:
        """Write the line of a photo. FrnError if the disk does not take it."""
        try:
            self._file.write(json.dumps({**line, "run": self.run}).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise FrnError(
                f"{self.path}: cannot be written ({error.strerror}). Mend that and go on with --resume."
            ) from error

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FrnError(f"{self.path}: another program is writing it") from error
        except OSError:  # a file system without locks
            return

    def _read(self) -> int:
        """Note which photos are done; returns where the last whole line ends."""
        self._file.seek(0)
        end = 0
        for number, line in enumerate(iter(lambda: self._file.readline(MAX_LINE), b""), 1):
            if not line.endswith(b"\n") and BEGINNING.startswith(line[: len(BEGINNING)]):
                break
            found = _parsed(line)
            if found is None:
                raise FrnError(f"{self.path}: line {number} is no answer of `frn classify`. Give another --out.")
            if found["run"] != self.run:
                raise FrnError(
                    f"{self.path}: line {number} was answered by other classes, another model or threshold. Use them, "
                    "or another --out."
                )
            self.done.add(found["image"])
            if "error" in found:
                self.failed.add(found["image"])
            end += len(line)
        return end


def _parsed(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        found: dict[str, Any] = json.loads(line)
        if isinstance(found["image"], str) and isinstance(found["run"], str):
            return found
    return None


def run_digest(classifier: Classifier) -> str:
    """A short digest of what decides a classifier's answers: model, classes and their examples, threshold."""
    classes = [(entry.name, [support.key for support in entry.supports]) for entry in classifier.state.classes]
    told = json.dumps([classifier.extractor.sha256, classes, classifier.threshold])
    return hashlib.sha256(os.fsencode(told)).hexdigest()[:12]
