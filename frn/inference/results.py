"""Answers to many photos in a file that grows line by line: a run that was stopped, or killed, continues behind them.

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
from frn.system.files import LOCK, beside, require_regular
from frn.system.overwriting import require_writable
from frn.system.processes.locks import Lock, holder

MAX_LINE = 64 << 20
"""Bytes of a line; ten thousand classes take one."""
BEGINNING = b'{"image": "'
"""How each line begins; a last one that does not was not begun by us, and is not ours to remove."""


class ResultsFile:
    """A `.jsonl` file that lines are added to, by one process at a time."""

    def __init__(self, path: Path, run: str, *, resume: bool = False, replace: bool = False) -> None:
        """Start a file, or with `resume` find out which photos are in it; half a line at its end goes.

        FrnError if it exists already and neither `resume` nor `replace` is given, is a photo, holds answers of another
        run, another program is writing it, or it cannot be written.
        """
        self.path, self.run = path, run
        self.done: set[str] = set()
        """The photos that have a line."""
        self.failed: set[str] = set()
        """Those among them whose line says why they could not be read."""
        check_results(path, resume=resume, replace=replace)
        self._lock = Lock(beside(path, LOCK))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self._lock.acquire():
                raise FrnError(f"{path}: {holder(self._lock.path)} is writing it")
            self._file = open(path, "a+b")  # noqa: SIM115  (closed by __exit__)
        except OSError as error:
            raise FrnError(f"{path}: cannot be written ({error.strerror})") from error
        try:
            self._file.truncate(self._read() if resume else 0)
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        # What a full disk did not take is written again by closing: the error that is under way says it better.
        with contextlib.suppress(OSError) if kind else contextlib.nullcontext():
            self._close()

    def _close(self) -> None:
        try:
            self._file.close()
        finally:
            self._lock.release()

    def add(self, line: Mapping[str, object]) -> None:
        """Write the line of a photo. FrnError if the disk does not take it."""
        try:
            self._file.write(json.dumps({**line, "run": self.run}).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise FrnError(
                f"{self.path}: cannot be written ({error.strerror}). Mend that and go on with --resume."
            ) from error

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


def check_results(path: Path, *, resume: bool, replace: bool) -> None:
    """Refuse a file that exists already, unless it is to be continued or replaced; an FrnError."""
    require_writable(path, replace=True)
    if path.exists() and path.stat().st_size and not (resume or replace):
        raise FrnError(
            f"{path}: already exists. Add --resume to continue it, --replace to start over, or another --out."
        )
    if path.exists():
        require_regular(path, sys.maxsize)


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
