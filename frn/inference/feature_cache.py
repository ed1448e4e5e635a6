"""Feature maps that were computed once, by content: the same photo under any name is never embedded again.

One SQLite file in the user's cache folder. A row belongs to an extractor (by the hash of its file) and to the bytes of
an image (by theirs), so a changed photo or another model never meets an old row. It is a cache: whatever is wrong with
it (damaged, locked, disk full, no permission), answers are the same, only slower; deleting it is always safe.

Maps are stored as they were computed, in float32: a cached answer is the fresh one to the last bit.
"""

import hashlib
import sqlite3
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.system.files import cache_folder

FEATURE_CACHE_VERSION = 1
"""Of the table and of how images are decoded; a file of another version is replaced."""
MAX_BYTES = 2 << 30
BUSY = 5.0
"""Seconds to wait for another process."""
TOUCH = 3600.0
"""Seconds after which a use is noted again: reading should not write each time."""

Maps = NDArray[np.float32]

_SCHEMA = """
CREATE TABLE maps (
    extractor TEXT NOT NULL, image TEXT NOT NULL, r INTEGER NOT NULL, d INTEGER NOT NULL, used REAL NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (extractor, image)
) WITHOUT ROWID
"""
_FIND = "SELECT r, d, used, data FROM maps WHERE extractor = ? AND image = ?"
_TOUCH = "UPDATE maps SET used = ? WHERE extractor = ? AND image = ?"
_BY_USE = "SELECT extractor, image, r * d * 4 FROM maps ORDER BY used, image"


def content_key(data: bytes) -> str:
    """What an image is called here, whatever its file is called: a hash of its bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class FeatureStore:
    """Feature maps (r, d) by extractor and content key. Any number of processes and threads may share one."""

    def __init__(self, path: Path | None = None, *, limit: int = MAX_BYTES) -> None:
        """Open or create a store of at most `limit` bytes of maps; the longest unused go first."""
        self.limit = limit
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        path = path or cache_folder() / "features.sqlite"
        for _ in range(2):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._database = _connect(path)
                weakref.finalize(self, self._database.close)  # from Python 3.13 on, sqlite3 asks for it
                return
            except sqlite3.OperationalError:  # locked, read-only, full: do without
                return
            except sqlite3.DatabaseError:  # damaged, or of another version: it is only a cache
                _discard(path)
            except OSError:
                return

    def get(self, extractor: str, key: str) -> Maps | None:
        """The map of an image, if it is there."""
        with self._lock:
            return self._get(extractor, key)

    def _get(self, extractor: str, key: str) -> Maps | None:
        if self._database is None:
            return None
        try:
            row = self._database.execute(_FIND, (extractor, key)).fetchone()
            if row is None or len(row[3]) != 4 * row[0] * row[1]:
                return None
            r, d, used, data = row
            if (now := time.time()) - used > TOUCH:
                with self._database as database:
                    database.execute(_TOUCH, (now, extractor, key))
        except sqlite3.Error:
            self.close()
            return None
        return np.frombuffer(data, dtype="<f4").reshape(r, d)

    def put(self, extractor: str, maps: Mapping[str, Maps]) -> None:
        """Keep maps (r, d) by key."""
        with self._lock:
            self._put(extractor, maps)

    def _put(self, extractor: str, maps: Mapping[str, Maps]) -> None:
        if self._database is None:
            return
        now = time.time()
        rows = [
            (extractor, key, *value.shape, now, np.ascontiguousarray(value, dtype="<f4").tobytes())
            for key, value in maps.items()
        ]
        try:
            with self._database as database:
                database.executemany("INSERT OR REPLACE INTO maps VALUES (?, ?, ?, ?, ?, ?)", rows)
                self._shrink(database)
        except sqlite3.Error:
            self.close()

    def close(self) -> None:
        """Let go of the file. Nothing is found or kept from here on."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _shrink(self, database: sqlite3.Connection) -> None:
        pages, free, page = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        excess = (pages - free) * page - self.limit
        if excess <= 0:
            return
        excess += self.limit // 10  # some room, or every later map would come here again
        for extractor, image, length in database.execute(_BY_USE).fetchall():
            database.execute("DELETE FROM maps WHERE extractor = ? AND image = ?", (extractor, image))
            excess -= length
            if excess <= 0:
                return


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY, check_same_thread=False)  # a lock lets in one thread at a time
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")  # a cache: what a power cut takes is computed again
        with database:
            database.execute("BEGIN IMMEDIATE")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                database.execute(_SCHEMA)
                database.execute(f"PRAGMA user_version = {FEATURE_CACHE_VERSION}")
            elif version != FEATURE_CACHE_VERSION:
                raise sqlite3.DatabaseError(f"version {version}")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _discard(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
