"""Files of answers: JSON lines, which a stopped run continues, or CSV, which appears when it is complete.

In JSON lines, `key` is the hash of the photo's content, and `run` is a digest of everything else that determines the
answer, so that a file never mixes answers from different classes or models.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Self

import msgspec

from frn.errors import FrnError
from frn.inference.classifier import Classifier
from frn.inference.records import Answer, Unreadable, lines, to_json
from frn.projects.project import write_path
from frn.system.files import LOCK, beside, open_to_append, replacing, require_regular, require_writable
from frn.system.processes.locks import Lock, holder

MAX_LINE = 64 << 20  # maximum line length in bytes; ten thousand classes need one this long
BEGINNING = b'{"image": "'  # start of each line; an incomplete last line with another start is not ours, and stays


class Line(msgspec.Struct):
    """What a line must have to be continued."""

    image: str
    run: str
    key: str = ""


def _decode(line: bytes) -> Line:
    """Read a line; unlike that of msgspec, this JSON decoder reads file names that are not UTF-8."""
    return msgspec.convert(json.loads(line), Line)


class ResultsFile:
    """A `.jsonl` file that one process at a time appends to."""

    def __init__(self, path: Path, run: str, *, resume: bool = False, replace: bool = False) -> None:
        """Create a file or, with `resume`, read which photos it contains and remove an incomplete last line.

        Raises FrnError if the file is a photo, holds results of another run, is being written by another program,
        cannot be written, or exists although neither `resume` nor `replace` is given.
        """
        self.path, self.run = path, run
        self.done: dict[str, str] = {}
        """Photos that have a line, with their content keys; the key is empty if the photo could not be read."""
        check_results(path, resume=resume, replace=replace)
        self._open(resume=resume)

    def _open(self, *, resume: bool) -> None:
        path = Path(os.path.realpath(self.path))
        self._lock = Lock(beside(path, LOCK))
        try:
            if not self._lock.acquire():  # also creates the folder
                raise FrnError(f"{path}: {holder(self._lock.path)} is writing it")
            self._file = open_to_append(path)
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

    def forget(self, images: Collection[str]) -> None:
        """Remove the lines of these photos. Raises FrnError if the file cannot be written."""
        if not images:
            return
        self._close()  # `replacing` locks the file itself
        with replacing(self.path, replace=True) as file, self.path.open("rb") as before:
            file.writelines(line for line in before if _decode(line).image not in images)
        self.done = {}
        self._open(resume=True)

    def add(self, record: Answer | Unreadable, key: str | None) -> None:
        """Write the line of a photo with this content key. Raises FrnError if writing fails."""
        record.run = self.run
        if isinstance(record, Answer) and key:
            record.key = key
        try:
            self._file.write(to_json(record).encode() + b"\n")
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
            try:
                entry = _decode(line)
            except (ValueError, RecursionError):
                raise FrnError(
                    f"{self.path}: line {number} was not written by `frn classify`. Give another --out."
                ) from None
            if entry.run != self.run:
                raise FrnError(
                    f"{self.path}: line {number} was written with different classes, another model or another "
                    "threshold. Use the same ones, or another --out."
                )
            self.done[entry.image] = entry.key
            end += len(line)
        return end


def check_results(path: Path, *, resume: bool | None = None, replace: bool = False) -> None:
    """Raise FrnError if a file of answers cannot be written, or exists and is not to be resumed or replaced.

    `resume` is None if the command cannot resume.
    """
    if path.suffix.lower() not in (".jsonl", ".csv"):
        raise FrnError(f"{path}: the name must end in .jsonl (JSON lines) or .csv (a table)")
    is_csv = path.suffix.lower() == ".csv"
    require_writable(path, replace=replace or not is_csv)
    if not is_csv and path.exists():
        if path.stat().st_size and not (resume or replace):
            ways = "--replace" if resume is None else "--resume to continue it, --replace to start over,"
            raise FrnError(f"{path}: already exists. Add {ways} or give another --out.")
        require_regular(path, sys.maxsize)


def write_answers(path: Path, records: Iterable[Answer | Unreadable], classes: Collection[str], *optional: str) -> None:
    """Write all answers, in the format of the suffix, to a path that `check_results` has accepted.

    Raises FrnError if it cannot be written.
    """
    with replacing(path, replace=True) as file:
        for line in lines(path.suffix, records, classes, *optional):
            file.write(line.encode())


def named_beside(file: Path, record: Answer | Unreadable) -> Answer | Unreadable:
    """Name the photo as it is read from a CSV file: relative names are relative to the folder of the file."""
    if not Path(record.image).is_absolute():
        record.image = write_path(Path(record.image), file.parent).get("path", record.image)
    return record


def run_digest(classifier: Classifier) -> str:
    """Return a short digest of what determines a classifier's answers: model, classes, examples, head and threshold."""
    classes = [(entry.name, [support.key for support in entry.supports]) for entry in classifier.state.classes]
    decisive = [classifier.extractor.sha256, classes, asdict(classifier.head), classifier.threshold]
    decisive += [[second.closer.extractor.sha256, second.sure]] if (second := classifier.second) else []
    parts = json.dumps(decisive + ([classifier.state.search] if classifier.state.search != "none" else []))
    return hashlib.sha256(os.fsencode(parts)).hexdigest()[:12]
