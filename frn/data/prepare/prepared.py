"""`prepared.json`: what a data set was made from, so that a second call is quick and a mixture is refused."""

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
"""Files and bytes of each class of each split."""


class Record(Struct):
    """One data set; written when its images begin to be written, and again when they are all there."""

    benchmark: str
    options: dict[str, object]
    """Class split, and the draw of "folder"."""
    sources: list[str] = []
    """Fingerprints of what was given."""
    digests: dict[str, str] = {}
    """MD5 of archives, by fingerprint."""
    holding: Holding = {}
    """Empty until it is whole."""
    skipped: list[str] | None = None
    """Files of a folder that are not images, each with the reason; None until they are known."""
    split_by: str = ""
    """How a folder was split, in words."""
    differs: list[str] = []
    """Where its numbers are not those of another release of the benchmark, in words."""

    def is_whole(self, sources: list[str], out: Path) -> bool:
        """Return whether all of it is in `out` and nothing of its sources has changed."""
        known = self.sources == sources and self.skipped is not None
        return known and bool(self.holding) and hold(out, [*self.holding]) == self.holding

    def write(self, out: Path) -> None:
        """Write it into the data set's folder, unless the same is there."""
        record = to_builtins(self)
        text = json.dumps({**record, "crc32": _checksum(record)}, indent=1, ensure_ascii=True) + "\n"
        path = out / NAME
        remove_unfinished(path)
        if not (path.is_file() and read_regular(path, MAX_JSON) == text.encode()):
            write_atomically(path, text)


def read_record(out: Path) -> Record | None:
    """Return the record of a data set; None if there is none, or it is damaged or of another version."""
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
    """Keep two data sets apart. FrnError if `out` holds another one."""
    if record is not None and (record.benchmark, record.options) != (benchmark, options):
        what = " ".join([record.benchmark, *(f"{key}={value}" for key, value in record.options.items())])
        raise FrnError(f"{out}: already holds something else ({what}). Give an --out of its own.")


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
    """Classes and images of each split."""
    counts = {}
    for split in ("train", "val", "test"):
        labels = [item.label for item in items if item.split == split]
        if labels:
            counts[split] = (len(set(labels)), len(labels))
    return counts
