"""`prepared.json`: a record of a data set's sources. It makes repeated calls fast and prevents mixing data sets."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from frn.data.prepare.benchmark import Item
from frn.errors import FrnError
from frn.system.files import MAX_JSON, read_json, read_regular, remove_unfinished, write_atomically

NAME = "prepared.json"
Holding = dict[str, dict[str, tuple[int, int]]]
"""Number of files and of bytes, by split and class."""


class Record(Struct):
    """Record of one data set, written before its images and again when all are complete."""

    benchmark: str
    options: dict[str, object]
    """Class split, and the random split of "folder"."""
    sources: list[str] = []
    """Fingerprints of the given sources."""
    digests: dict[str, str] = {}
    """MD5 of archives, by fingerprint."""
    holding: Holding = {}
    """Empty until the data set is complete."""
    skipped: list[str] | None = None
    """Files of a folder that are not images, each with the reason; None while they are unknown."""
    split_by: str = ""
    """Description of how a folder was split."""
    differs: list[str] = []
    """Notes on counts that differ from another release of the benchmark."""

    def is_whole(self, sources: list[str], out: Path) -> bool:
        """Return whether `out` is complete and the sources are unchanged."""
        known = self.sources == sources and self.skipped is not None
        return known and bool(self.holding) and hold(out, [*self.holding]) == self.holding

    def write(self, out: Path) -> None:
        """Write the record to the data set's folder, unless it already exists."""
        record = to_builtins(self)
        text = json.dumps({**record, "crc32": _checksum(record)}, indent=1, ensure_ascii=True) + "\n"
        path = out / NAME
        remove_unfinished(path)
        if not (path.is_file() and read_regular(path, MAX_JSON) == text.encode()):
            write_atomically(path, text)


def read_record(out: Path) -> Record | None:
    """Return the record of a data set; None if it is missing, damaged or from another version."""
    try:
        raw = read_json(out / NAME)
        if raw.pop("crc32") != _checksum(raw):
            return None
        return convert(raw, Record)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError):
        return None


def _checksum(record: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())


def refuse_another(record: Record | None, benchmark: str, options: dict[str, object], out: Path) -> None:
    """Raise FrnError if `out` already contains a different data set."""
    if record is not None and (record.benchmark, record.options) != (benchmark, options):
        what = " ".join([record.benchmark, *(f"{key}={value}" for key, value in record.options.items())])
        raise FrnError(f"{out}: already contains something else ({what}). Give another --out.")


def hold(out: Path, splits: list[str]) -> Holding:
    """Count the files and bytes of every class folder; hidden files are skipped."""
    holding: Holding = {}
    for split in splits:
        labels = holding[split] = {}
        if (out / split).is_dir():
            for folder in sorted(os.scandir(out / split), key=lambda entry: entry.name):
                if not folder.is_dir():
                    continue
                sizes = [entry.stat().st_size for entry in os.scandir(folder) if entry.name[0] != "."]
                labels[folder.name] = (len(sizes), sum(sizes))
    return holding


def count(items: list[Item]) -> dict[str, tuple[int, int]]:
    """Return the number of classes and images of each split."""
    counts = {}
    for split in ("train", "val", "test"):
        labels = [item.label for item in items if item.split == split]
        if labels:
            counts[split] = (len(set(labels)), len(labels))
    return counts
