"""Results of classifying many photos, appended to a file line by line so that a stopped run can be resumed.

Each line is one JSON object for a photo. The field `run` is a digest of everything that determines the result, so that
a file never mixes results from different classes or models.
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
from frn.system.files import LOCK, beside, require_regular, require_writable
from frn.system.processes.locks import Lock, holder

MAX_LINE = 64 << 20
"""Maximum line length in bytes; ten thousand classes need one this long."""
BEGINNING = b'{"image": "'
"""Start of each line. An incomplete last line with a different start is not ours, so it is not removed."""


class ResultsFile:
    """A `.jsonl` file that one process at a time appends to."""

    def __init__(self, path: Path, run: str, *, resume: bool = False, replace: bool = False) -> None:
        """Create a file or, with `resume`, read which photos it contains and remove an incomplete last line.

        Raises FrnError if the file is a photo, holds results of another run, is being written by another program,
        cannot be written, or exists although neither `resume` nor `replace` is given.
        """
        self.path, self.run = path, run
        self.done: set[str] = set()
        """Photos that have a line."""
        self.failed: set[str] = set()
        """Photos among them that could not be read."""
        check_results(path, resume=resume, replace=replace)
        self._lock = Lock(beside(path, LOCK))
        try:
            if not self._lock.acquire():  # also creates the folder
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
        # After a full disk, closing tries to write the rest again; the original error is the better message.
        with contextlib.suppress(OSError) if kind else contextlib.nullcontext():
            self._close()

    def _close(self) -> None:
        try:
            self._file.close()
        finally:
            self._lock.release()

    def add(self, line: Mapping[str, object]) -> None:
        """Write the line of a photo. Raises FrnError if writing fails."""
        try:
            self._file.write(json.dumps({**line, "run": self.run}).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise FrnError(
                f"{self.path}: cannot be written ({error.strerror}). Fix that and continue with --resume."
            ) from error

    def _read(self) -> int:
        """Read which photos have a line, and return the end of the last complete line."""
        self._file.seek(0)
        end = 0
        for number, line in enumerate(iter(lambda: self._file.readline(MAX_LINE), b""), 1):
            if not line.endswith(b"\n") and BEGINNING.startswith(line[: len(BEGINNING)]):
                break
            found = _parsed(line)
            if found is None:
                raise FrnError(f"{self.path}: line {number} was not written by `frn classify`. Give another --out.")
            if found["run"] != self.run:
                raise FrnError(
                    f"{self.path}: line {number} was written with different classes, another model or another "
                    "threshold. Use the same ones, or another --out."
                )
            self.done.add(found["image"])
            if "error" in found:
                self.failed.add(found["image"])
            end += len(line)
        return end


def check_results(path: Path, *, resume: bool, replace: bool) -> None:
    """Raise FrnError if a file already exists, unless it is to be resumed or replaced."""
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
    """Return a short digest of what determines a classifier's results: model, classes, examples and threshold."""
    classes = [(entry.name, [support.key for support in entry.supports]) for entry in classifier.state.classes]
    told = json.dumps([classifier.extractor.sha256, classes, classifier.threshold])
    return hashlib.sha256(os.fsencode(told)).hexdigest()[:12]
