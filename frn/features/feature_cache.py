"""Cache of feature maps by image content: a photo is embedded only once, regardless of its file name.

The cache is one SQLite file in the user's cache folder. A row is keyed by extractor (hash of its file) and image
(hash of its bytes), so a changed photo or another model never matches an old row. If the cache is damaged, locked, full
or not permitted, results are the same, only slower; deleting it is always safe. Every row has a checksum; a damaged row
is computed again and replaced. A file that is not marked as ours is left alone. The keys of photos are also kept by
path, so that a file is not read again until its stamp (`images.stamps.stamp_of`) changes.

Maps are stored in float32 as computed, after the image's perceptual hash, so a cached result is identical to a fresh
one to the last bit.
"""

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.images.near_copies import BYTES as LOOK
from frn.system.caches import APPLICATION, FEATURES, is_feature_store, make_cache_folder
from frn.system.processes.forks import after_fork

FEATURE_CACHE_VERSION = 5  # version of the table and of image decoding; a file with another version is replaced
MAX_CACHE_BYTES = 2 << 30
TOUCH = 3600.0  # minimum seconds between two recorded uses, so that not every read causes a write

FILES = "files"  # name that the keys of files have in place of an extractor

Maps = NDArray[np.float32]

_SCHEMA = """
CREATE TABLE maps (
    extractor TEXT NOT NULL, image TEXT NOT NULL, r INTEGER NOT NULL, d INTEGER NOT NULL, used REAL NOT NULL,
    data BLOB NOT NULL, crc32 INTEGER NOT NULL, PRIMARY KEY (extractor, image)
) WITHOUT ROWID
"""
_FIND = "SELECT r, d, used, data, crc32 FROM maps WHERE extractor = ? AND image = ?"
_TOUCH = "UPDATE maps SET used = ? WHERE extractor = ? AND image = ?"
_BY_USE = "SELECT extractor, image, coalesce(length(data), 0) FROM maps ORDER BY used, image"
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors that SQLite raises; UnicodeDecodeError occurs when an error message quotes a damaged name."""
_BUSY_OR_FULL = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
}
"""Errors that do not indicate a damaged file; any other error does."""


_INHERITED: list[object] = []  # connections of the parent process, kept so that they are not closed


def content_key(data: bytes) -> str:
    """Return the key of an image: a hash of its bytes, independent of its name."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class FeatureStore:
    """Feature maps (r, d) by extractor and content key, shared safely between processes and threads."""

    def __init__(self, path: Path | None = None, *, limit: int = MAX_CACHE_BYTES) -> None:
        """Open or create a store for at most `limit` bytes of maps; the least recently used are deleted first."""
        self.limit = limit
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._path = path
        self._open()
        after_fork(self, FeatureStore._reopen)

    def _reopen(self) -> None:
        """Open the file again after a fork; the old connection must not even be closed there."""
        self._lock = threading.RLock()
        if self._database is not None:
            _INHERITED.append(self._finalizer.detach())
            self._database = None
            self._open()

    def _open(self) -> None:
        """Open the file; replace it first if it is ours and damaged or from another version."""
        for _ in range(2):
            try:
                path = self._path = self._path or make_cache_folder() / FEATURES
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.exists() and path.stat().st_size and not is_feature_store(path):
                    return
                self._database = _connect(path)
                # from Python 3.13 on, sqlite3 warns otherwise
                self._finalizer = weakref.finalize(self, self._database.close)
                return
            except _ERRORS as error:
                if not _is_damage(error):  # locked, read-only, full: work without it
                    return
                assert self._path is not None
                _discard(self._path)
            except (OSError, FrnError):
                return

    def get(self, extractor: str, key: str, shape: tuple[int, int]) -> tuple[Maps, bytes] | None:
        """Return the map (r, d) of an image and its perceptual hash, or None."""
        data = self._find(extractor, key, shape)
        if data is None or len(data) != LOOK + 4 * shape[0] * shape[1]:
            return None
        return np.frombuffer(data, dtype="<f4", offset=LOOK).reshape(shape), data[:LOOK]

    def put(self, extractor: str, maps: Mapping[str, Maps], looks: Mapping[str, bytes] | None = None) -> None:
        """Store maps (r, d), and perceptual hashes, by key."""
        self._keep(
            (extractor, key, *value.shape, (looks or {}).get(key, bytes(LOOK)) + value.astype("<f4").tobytes())
            for key, value in maps.items()
        )

    def key_of(self, path: Path, stamp: str) -> str | None:
        """Return the content key of a file that had this stamp when it was read, or None."""
        data = self._find(FILES, _name_of(path), None)
        known, _, key = (data or b"").decode().partition("\n")
        return key if known == stamp else None

    def keep_key(self, path: Path, stamp: str, key: str) -> None:
        """Store the content key of a file; `stamp` is from before it was read.

        The key of a file that has just changed is not stored, because another change could get the same time.
        """
        # Nanoseconds after which another change of a file gets another time: FAT counts in steps of two seconds
        settled = time.time_ns() - 3 * 10**9
        if stamp and all(int(ns) < settled for ns in stamp.split()[2:]):
            self.put_bytes(FILES, _name_of(path), f"{stamp}\n{key}".encode())

    def get_bytes(self, extractor: str, key: str) -> bytes | None:
        """Return the bytes that `put_bytes` stored, or None if they are not stored."""
        return self._find(extractor, key, None)

    def put_bytes(self, extractor: str, key: str, data: bytes) -> None:
        """Store a result computed from several maps; it may take at most a tenth of the store's limit."""
        if 10 * len(data) <= self.limit:
            self._keep([(extractor, key, len(data), 0, data)])

    def _find(self, extractor: str, key: str, shape: tuple[int, int] | None) -> bytes | None:
        with self._lock:
            if self._database is None:
                return None
            try:
                row = self._database.execute(_FIND, (extractor, key)).fetchone()
                r, d, used, data, checksum = row or (None,) * 5
                # Damage can change the type of a value; the checksum's text then differs.
                if not isinstance(data, bytes) or checksum != _crc32(extractor, key, r, d, data):
                    return None
                now = time.time()
                if not isinstance(used, float) or now - used > TOUCH:
                    with self._database as database:
                        database.execute(_TOUCH, (now, extractor, key))
            except _ERRORS as error:
                self._give_up(error)
                return None
            return data if (r, d) == (shape or (len(data), 0)) else None

    def _keep(self, entries: Iterable[tuple[str, str, int, int, bytes]]) -> None:
        """Insert rows of extractor, key, r, d and data."""
        now = time.time()
        rows = [(*entry[:4], now, entry[4], _crc32(*entry)) for entry in entries]
        with self._lock:
            if self._database is None:
                return
            try:
                with self._database as database:
                    database.executemany("INSERT OR REPLACE INTO maps VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                    self._shrink(database)
            except _ERRORS as error:
                self._give_up(error)

    def close(self) -> None:
        """Close the file; afterwards nothing is found or stored."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _give_up(self, error: Exception) -> None:
        """Stop using the file; a damaged one is deleted, and the next program creates a new one."""
        self.close()
        if self._path is not None and _is_damage(error):
            _discard(self._path)

    def _shrink(self, database: sqlite3.Connection) -> None:
        pages, free, page = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        excess = (pages - free) * page - self.limit
        if excess <= 0:
            return
        excess += self.limit // 10  # free some extra space, or every further map would cause a deletion
        for extractor, image, length in database.execute(_BY_USE).fetchall():
            database.execute("DELETE FROM maps WHERE extractor = ? AND image = ?", (extractor, image))
            excess -= length
            if excess <= 0:
                return


def _name_of(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(os.path.abspath(path)), digest_size=16).hexdigest()  # noqa: PTH100


def _connect(path: Path) -> sqlite3.Connection:
    # Seconds to wait for another process
    database = sqlite3.connect(path, timeout=5.0, check_same_thread=False)  # our lock admits one thread at a time
    try:
        if database.execute("PRAGMA application_id").fetchone() != (APPLICATION,):  # the file is new
            database.execute(f"PRAGMA application_id = {APPLICATION}")  # before WAL, which would not write it
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")  # a cache: anything lost in a power cut is computed again
        with database:
            database.execute("BEGIN IMMEDIATE")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == 0 and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                database.execute(_SCHEMA)
                database.execute(f"PRAGMA user_version = {FEATURE_CACHE_VERSION}")
            elif version != FEATURE_CACHE_VERSION:
                raise sqlite3.DatabaseError(f"version {version}")
    except _ERRORS:
        database.close()
        raise
    return database


def _is_damage(error: Exception) -> bool:
    """Return whether the file is damaged.

    The lowest byte of an error code gives its kind; a UnicodeDecodeError has no code and counts as damage.
    """
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _BUSY_OR_FULL


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _crc32(extractor: str, key: str, r: object, d: object, data: bytes) -> int:
    """Return a checksum of the whole row except its last-use time."""
    return zlib.crc32(data, zlib.crc32(repr((extractor, key, r, d)).encode()))
