"""The caches on disk: where they are, what they hold, what goes first. Free of torch and numpy.

`images/KEY/` is the decoded images of one split of a data set (`frn.data.pixel_cache`); `features.sqlite` has feature
maps of photos (`frn.inference.feature_cache`, which keeps its own limit). All of it is made again when it is missing.
"""

import contextlib
import errno
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import cache_folder, cache_pointer, read_json, write_atomically

LIMIT = 10.0
"""GiB of decoded images that are kept, unless $FRN_CACHE_LIMIT says another number."""
RECENT = 3600.0
"""Seconds for which what was used stays, whatever the limit: a run reads several splits."""
MAX_INDEX = 1 << 30
"""Bytes of what a split's cache says of itself: of ten million images."""
IMAGES, FEATURES, INDEX, USED = "images", "features.sqlite", "index.json", "used"
"""Names of the two caches, and of two files of a split's: what it holds, and a stamp whose date is that of its use."""
UNFINISHED, REMOVED = ".building-", ".removed-"
"""How the names of folders begin that are not whole yet, or not any more."""


@dataclass(frozen=True, slots=True)
class CachedSplit:
    """The decoded images of one split."""

    path: Path
    of: str
    """The split's folder; empty in caches of version 0.1.0."""
    images: int
    size: int
    """Bytes."""
    used: float
    """When it was last used, in seconds since 1970."""


def limit_in_bytes() -> int:
    """How much decoded images may take. FrnError if $FRN_CACHE_LIMIT is no number."""
    said = os.environ.get("FRN_CACHE_LIMIT") or LIMIT
    try:
        limit = float(said) * 2**30
        if not 0 <= limit < float("inf"):
            raise ValueError
    except ValueError as error:
        raise FrnError(f"FRN_CACHE_LIMIT is {said!r}; it must be a number of GiB, such as 20") from error
    return int(limit)


def cached_splits() -> list[CachedSplit]:
    """What the cache of decoded images holds, the longest unused first."""
    homes = [entry for entry in _entries(cache_folder() / IMAGES) if not entry.name.startswith(".")]
    return sorted(filter(None, map(_look_at, homes)), key=lambda split: split.used)


def _look_at(home: Path) -> CachedSplit | None:
    try:
        size, stamp = _size(home), home / USED
        used = (stamp if stamp.exists() else home).stat().st_mtime
        index = read_json(home / INDEX, MAX_INDEX)
        return CachedSplit(home, str(index.get("of", "")), len(json.loads(index["body"])["shapes"]), size, used)
    except (FrnError, ValueError, KeyError, TypeError, AttributeError):
        return CachedSplit(home, "", 0, size, used)  # torn: it will be made again, or go
    except OSError:  # another process has just removed it
        return None


def features_size() -> int:
    """Bytes of the cache of feature maps."""
    return sum(_size(path) for path in _feature_files(cache_folder()))


def trim(limit: int | None = None) -> int:
    """Remove what has been unused for the longest, until the images take at most `limit` bytes; and unfinished work.

    Returns the bytes that are free now. What was used within the last hour stays.
    """
    limit = limit_in_bytes() if limit is None else limit
    freed, past = _sweep(), time.time() - RECENT
    splits = cached_splits()
    total = sum(split.size for split in splits)
    for split in splits:
        if total <= limit or split.used > past:
            break
        _remove(split.path)
        total, freed = total - split.size, freed + split.size
    return freed


def clear(unused_for: float | None = None) -> int:
    """Remove all caches, or the decoded images that were not used for so many seconds; returns the bytes."""
    freed, now = _sweep(), time.time()
    for split in cached_splits():
        if unused_for is None or now - split.used > unused_for:
            _remove(split.path)
            freed += split.size
    if unused_for is None:
        for path in _feature_files(cache_folder()):
            freed += _size(path)
            _unlink(path)
    return freed


def move(to: Path) -> None:
    """Move all caches into a folder and keep them there from now on; a call that was interrupted is gone on with.

    FrnError if $FRN_CACHE says where they are, the folder holds something else, or it cannot be written.
    """
    if os.environ.get("FRN_CACHE"):
        raise FrnError("FRN_CACHE says where the caches are: set it to another folder instead, or unset it first")
    old, new = cache_folder().resolve(), to.resolve()
    if old == new:
        raise FrnError(f"{new}: the caches are there already")
    if old in new.parents or new in old.parents:
        raise FrnError(f"{new}: lies inside {old} or around it. Give a folder of its own.")
    own = {IMAGES, *(f"{FEATURES}{suffix}" for suffix in ("", "-wal", "-shm"))}
    if others := sorted(entry.name for entry in _entries(new) if entry.name not in own):
        raise FrnError(f"{new}: holds something else ({others[0]}). Give a folder of its own.")
    try:
        (new / IMAGES).mkdir(parents=True, exist_ok=True)
        for path in _feature_files(old):
            shutil.move(path, new / path.name)
        for home in _entries(old / IMAGES):
            _move_folder(home, new / IMAGES / home.name)
    except OSError as error:
        raise FrnError(
            f"{new}: the caches cannot be moved there ({error.strerror}). What is left stays in use in {old}; call "
            "again to go on."
        ) from error
    write_atomically(cache_pointer(), os.fsencode(f"{new}\n"))


def _move_folder(source: Path, target: Path) -> None:
    """Rename a folder, or copy it to another disk; it appears whole or not at all."""
    if target.exists():
        shutil.rmtree(source)
        return
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        part = target.with_name(f"{UNFINISHED}{target.name}")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(source, part)
        part.rename(target)
        shutil.rmtree(source)


def _sweep() -> int:
    """Remove what killed programs have left behind; returns the bytes."""
    freed, past = 0, time.time() - RECENT
    for home in _entries(cache_folder() / IMAGES):
        with contextlib.suppress(OSError):
            newest = max(entry.stat().st_mtime for entry in (home, *home.iterdir()))
            if home.name.startswith((UNFINISHED, REMOVED)) and newest < past:
                freed += _size(home)
                shutil.rmtree(home, ignore_errors=True)
    return freed


def _remove(home: Path) -> None:
    """Remove a split's images, at once: what a kill leaves behind is no cache any more."""
    with contextlib.suppress(OSError):  # in use, on a system that keeps files in use
        shutil.rmtree(home.rename(home.with_name(f"{REMOVED}{home.name}")), ignore_errors=True)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _feature_files(folder: Path) -> list[Path]:
    return [path for suffix in ("", "-wal", "-shm") if (path := folder / f"{FEATURES}{suffix}").is_file()]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    return sum(entry.stat().st_size for entry in (path.iterdir() if path.is_dir() else [path]))
