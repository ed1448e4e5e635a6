"""Caches on disk: location, limit and cleanup, without torch and numpy.

`images/KEY/` holds the decoded images of one split of a data set (`frn.data.pixel_cache`); `features.sqlite` holds
feature maps of photos (`frn.features.feature_cache`, which has its own limit). Missing caches are created again.

Nothing is removed without our mark: the root has our `CACHEDIR.TAG`, a split's folder our name and index, and only
files with our names are deleted. A folder with other content is left alone, and links are not followed.
"""

import contextlib
import os
import re
import time
from pathlib import Path

from frn.errors import FrnError
from frn.system.files import LOCK, PART, beside, is_folder, read_regular, remove, write_atomically
from frn.system.processes.locks import Lock

RECENT = 3600.0  # seconds after its last use in which a split is kept despite the limit: a run reads several
MAX_INDEX = 1 << 30  # largest index of a split's cache in bytes, enough for ten million images
IMAGES, FEATURES, PIXELS, INDEX, USED = "images", "features.sqlite", "pixels", "index.json", "used"
"""Names of the two caches, and of a split's files: pixels, index, and a stamp dated by the last use."""
TAG, OURS = "CACHEDIR.TAG", "# This folder is a cache that frn created."
SIGNATURE = f"Signature: 8a477f597d28d172789f06886806bc55\n{OURS} Everything in it may be deleted.\n"
"""Content of `TAG`: the signature from https://bford.info/cachedir/ and a line of ours."""
OWN_FOLDER = "frn-cache"  # name of the caches' folder inside a folder that holds other things
KEY = re.compile("[0-9a-f]{24}")  # pattern of the names of splits' folders
_BESIDE = re.compile(rf"\.({KEY.pattern})\.{PART}")
APPLICATION = int.from_bytes(b"frn\0")  # application id of the feature map store, at byte 68 of an SQLite file


def cache_folder() -> Path:
    """Return the folder of caches: $FRN_CACHE or the user's cache folder, or a subfolder if it holds other things."""
    from platformdirs import user_cache_path

    root = Path(os.environ.get("FRN_CACHE") or user_cache_path("frn", appauthor=False))
    return root if _is_free(root) else root / OWN_FOLDER


def make_cache_folder() -> Path:
    """Create the folder of the caches and mark it as ours. Raises FrnError if it contains anything else."""
    folder = cache_folder()
    if not _is_free(folder):
        raise FrnError(
            f"{folder}: contains other files, but a cache needs its own folder. Set FRN_CACHE to a new folder."
        )
    if not _is_tagged(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / TAG, SIGNATURE, replace=True)  # another process may have written it
    return folder


def _is_free(folder: Path) -> bool:
    others = {entry.name for entry in _entries(folder)} - {beside(folder / TAG, ending).name for ending in (LOCK, PART)}
    return not others or _is_tagged(folder)  # in this order: another process may be creating it


def _is_tagged(folder: Path) -> bool:
    with contextlib.suppress(FrnError):
        return OURS.encode() in read_regular(folder / TAG, 1 << 12)
    return False


def limit_in_bytes() -> int:
    """Return how many bytes decoded images may take. Raises FrnError if $FRN_CACHE_LIMIT is not a number."""
    # GiB of decoded images to keep, unless $FRN_CACHE_LIMIT sets another limit
    said = os.environ.get("FRN_CACHE_LIMIT") or 10.0
    try:
        limit = float(said) * 2**30
        if not 0 <= limit < float("inf"):
            raise ValueError
    except ValueError as error:
        raise FrnError(f"FRN_CACHE_LIMIT is {said!r}; it must be a number of GiB, such as 20") from error
    return int(limit)


def cached_splits() -> list[tuple[float, int, Path]]:
    """Return time of the last use, size in bytes and folder of each cached split, least recently used first."""
    return sorted(filter(None, map(_look_at, _our_entries())))


def _our_entries() -> list[Path]:
    """Return the entries of the folder of decoded images, if it is ours and not a link."""
    folder = cache_folder()
    if not _is_tagged(folder) or (folder / IMAGES).is_symlink():
        return []
    return [entry for entry in _entries(folder / IMAGES) if not entry.is_symlink() and is_folder(entry)]


def _look_at(home: Path) -> tuple[float, int, Path] | None:
    """Return an entry of `cached_splits`, or None for any other folder."""
    if not KEY.fullmatch(home.name) or {entry.name for entry in _entries(home)} - {PIXELS, INDEX, USED}:
        return None
    try:
        with (home / INDEX).open("rb") as index:
            if not index.read(16).startswith(b'{"version"'):
                return None
        stamp = home / USED
        used = (stamp if stamp.exists() else home).stat().st_mtime
        return used, sum(entry.stat().st_size for entry in home.iterdir()), home
    except OSError:
        return None


def is_feature_store(path: Path) -> bool:
    """Return whether a file's first bytes mark it as a feature map store, damaged or not; links are not."""
    try:
        if path.is_symlink():
            return False
        with path.open("rb") as file:
            return int.from_bytes(file.read(72)[68:]) == APPLICATION
    except OSError:
        return False


def trim(limit: int) -> None:
    """Remove unfinished work, and the least recently used splits until the images take at most `limit` bytes.

    Splits used within the last hour are kept.
    """
    _sweep()
    splits = cached_splits()
    excess = sum(size for _, size, _ in splits) - limit
    for used, size, home in splits:
        if excess <= 0 or used > time.time() - RECENT:
            break
        discard(home)
        excess -= size


def discard(home: Path) -> None:
    """Remove our files of a split, the index last, so that a killed removal is repeated; its folder may hold others."""
    remove(home / PIXELS)
    if not (home / PIXELS).exists():  # Windows keeps files that are in use
        for name in (USED, INDEX):
            remove(home / name)
        with contextlib.suppress(OSError):
            home.rmdir()


def _sweep() -> None:
    for home in _our_entries():
        if match := _BESIDE.fullmatch(home.name):
            held = Lock(beside(home.with_name(match[1]), LOCK))
            with contextlib.suppress(OSError):
                if home.stat().st_mtime < time.time() - RECENT and held.acquire():
                    discard(home)
                    held.release()


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
