"""The feature cache: the same answers with and without it, even if it is damaged."""

import contextlib
import os
import sqlite3
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from frn.features.extractor import Embedded, Extractor, Prepared
from frn.features.feature_cache import FeatureStore, Maps, content_key
from frn.images.near_copies import BYTES as LOOK
from frn.images.near_copies import look
from frn.models.zoo import shipped_extractors
from tests import processes

SHAPE = (4, 8)


def maps(seed: int, r: int = 4, d: int = 8) -> Maps:
    return np.random.default_rng(seed).standard_normal((r, d)).astype(np.float32)


def test_maps_are_stored_losslessly_by_model_and_content(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "f.sqlite")
    store.put("m", {"a": maps(0), "b": maps(1, r=9)})
    store.close()
    again = FeatureStore(tmp_path / "f.sqlite")
    for key, expected in (("a", maps(0)), ("b", maps(1, r=9))):
        found = again.get("m", key, expected.shape)
        assert found is not None
        np.testing.assert_array_equal(found[0], expected)
    assert again.get("other model", "a", SHAPE) is None
    assert again.get("m", "c", SHAPE) is None


def test_least_recently_used_maps_are_removed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000, 90_000_000, 10_000))
    monkeypatch.setattr("frn.features.feature_cache.time.time", lambda: next(clock))
    store = FeatureStore(tmp_path / "f.sqlite", limit=200_000)
    for number in range(40):
        store.put("m", {str(number): maps(number, r=25, d=64)})  # each map takes 6.4 kB
        store.get("m", "0", (25, 64))  # this map is used constantly
    kept = [number for number in range(40) if store.get("m", str(number), (25, 64)) is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(kept[1], 40))
    assert 10 < len(kept) < 30


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    FeatureStore(path).close()
    path.write_bytes(path.read_bytes()[:72] + b"\xff" * 4000)
    store = FeatureStore(path)
    store.put("m", {"a": maps(0)})
    assert store.get("m", "a", SHAPE) is not None


COPY = "INSERT OR REPLACE INTO maps SELECT "
ROWS = {
    "another number": "UPDATE maps SET data = zeroblob(128)",
    "other shape, same length": "UPDATE maps SET r = 8, d = 4",
    "text": "UPDATE maps SET data = 'x', used = 'long ago'",
    "shape of text": "UPDATE maps SET r = 'four', d = x'08'",
    "another photo's map": f"{COPY}'m', 'b', r, d, used, data, crc32 FROM maps WHERE extractor = 'm' AND image = 'a'",
    "another model's map": f"{COPY}'n', 'a', r, d, used, data, crc32 FROM maps WHERE extractor = 'm' AND image = 'a'",
    "no such table": "ALTER TABLE maps RENAME TO other",
    "no such column": "ALTER TABLE maps RENAME COLUMN crc32 TO other",
    "not UTF-8": "UPDATE maps SET r = CAST(x'ff' AS TEXT)",
}


@pytest.mark.parametrize("damage", ROWS.values(), ids=ROWS)
def test_damaged_row_is_ignored_and_replaced(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f.sqlite"
    store = FeatureStore(path)
    store.put("m", {"a": maps(0), "b": maps(1)})
    store.put("n", {"a": maps(2)})
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(damage)
    again = FeatureStore(path)
    for model, key, number in (("m", "a", 0), ("m", "b", 1), ("n", "a", 2)):
        found = again.get(model, key, SHAPE)
        assert found is None or np.array_equal(found[0], maps(number))
        again.put(model, {key: maps(number)})
    again.close()
    last = FeatureStore(path)
    last.put("m", {"a": maps(0)})
    assert last.get("m", "a", SHAPE) is not None


def test_damaged_page_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    store = FeatureStore(path)
    store.put("m", {str(number): maps(number, r=25, d=64) for number in range(40)})
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * len(data[4096:])
    path.write_bytes(data)
    assert FeatureStore(path).get("m", "7", (25, 64)) is None
    again = FeatureStore(path)
    again.put("m", {"7": maps(7)})
    assert again.get("m", "7", SHAPE) is not None


@pytest.mark.parametrize("version", [0, 1])
def test_file_not_written_by_frn_is_left_unchanged(tmp_path: Path, version: int) -> None:
    path = tmp_path / "f.sqlite"
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE maps (letters TEXT)")
    database.execute(f"PRAGMA user_version = {version}")
    database.commit()
    database.close()
    for content in (path.read_bytes(), b"no database at all" * 100, b"short"):
        path.write_bytes(content)
        store = FeatureStore(path)
        store.put("m", {"a": maps(0)})
        assert store.get("m", "a", SHAPE) is None
        assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"f.sqlite": content}


def test_unwritable_cache_does_not_fail(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("no folder")
    store = FeatureStore(blocker / "f.sqlite")
    store.put("m", {"a": maps(0)})
    assert store.get("m", "a", SHAPE) is None


@pytest.mark.skipif(not Path("/dev/full").exists() or os.name == "nt", reason="needs a small disk limit")
def test_full_disk_stops_caching_but_not_the_program(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys, numpy as np; from pathlib import Path\n"
        "from frn.features.feature_cache import FeatureStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = FeatureStore(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "for n in range(100): store.put('m', {str(n): np.zeros((25, 64), np.float32)})\n"
        "print(store.get('m', '0', (25, 64)) is None or 'kept')"
    )
    result = processes.run([sys.executable, "-c", code, str(tmp_path / "f.sqlite")])
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_two_programs_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    one, two = FeatureStore(path), FeatureStore(path)
    for number in range(20):
        (one, two)[number % 2].put("m", {str(number): maps(number)})
    assert all(store.get("m", str(number), SHAPE) is not None for store in (one, two) for number in range(20))


def test_new_maps_are_stored_and_cached_ones_are_not_written_again(tmp_path: Path) -> None:
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu", threads=1)
    store, pixels = FeatureStore(tmp_path / "f.sqlite"), np.full((32, 32, 3), 90, np.uint8)
    known = Embedded("known", maps(0), bytes(LOOK))
    found = extractor.embed([known, Prepared("new", pixels)], store)
    assert [entry.key for entry in found if isinstance(entry, Embedded)] == ["known", "new"]
    assert store.get(extractor.sha256, "known", SHAPE) is None
    stored = store.get(extractor.sha256, "new", extractor.shape)
    assert stored is not None
    np.testing.assert_array_equal(stored[0], extractor.feature_maps(pixels[None])[0])
    assert stored[1] == look(pixels)


def test_bytes_up_to_a_tenth_of_the_limit_are_kept(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "f.sqlite", limit=10_000_000)
    for size, kept in ((1_000_000, True), (1_000_001, False)):
        store.put_bytes("m", str(size), bytes(size))
        assert (store.get_bytes("m", str(size)) is not None) == kept


def test_a_file_of_version_5_is_read(tmp_path: Path) -> None:
    """The table, the bytes of a row and its checksum keep their meaning as long as the version stays the same."""
    path, value = tmp_path / "f.sqlite", maps(0)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA application_id = 1718775296")  # "frn\0"
        database.execute(
            "CREATE TABLE maps (extractor TEXT NOT NULL, image TEXT NOT NULL, r INTEGER NOT NULL, d INTEGER NOT NULL, "
            "used REAL NOT NULL, data BLOB NOT NULL, crc32 INTEGER NOT NULL, PRIMARY KEY (extractor, image)) "
            "WITHOUT ROWID"
        )
        database.execute("PRAGMA user_version = 5")
        data = b"?" * LOOK + value.tobytes()
        checksum = zlib.crc32(b"('m', 'a', 4, 8)" + data)
        assert zlib.crc32(data, zlib.crc32(b"('m', 'a', 4, 8)")) == checksum
        database.execute("INSERT INTO maps VALUES ('m', 'a', 4, 8, 1e9, ?, ?)", (data, checksum))
    found = FeatureStore(path).get("m", "a", SHAPE)
    assert found is not None
    np.testing.assert_array_equal(found[0], value)
    assert found[1] == b"?" * LOOK


def test_a_file_of_another_version_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    store = FeatureStore(path)
    store.put("m", {"a": maps(0)})
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 4")
    again = FeatureStore(path)
    assert again.get("m", "a", SHAPE) is None
    again.put("m", {"a": maps(0)})
    assert again.get("m", "a", SHAPE) is not None


def test_a_file_that_another_program_is_creating_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    other = FeatureStore(path)
    other.put("m", {"a": maps(0)})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("PRAGMA user_version = 0")
        database.execute("ALTER TABLE maps RENAME TO hidden")
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(FeatureStore, path)
            time.sleep(0.05)
            assert not opening.done()
            database.execute("ROLLBACK")
            assert opening.result().get("m", "a", SHAPE) is not None


def test_content_key_is_the_recorded_one() -> None:
    assert content_key(b"photo") == "42bc7252ed9d80afd43e4573d5391af1"


def test_maps_without_a_perceptual_hash_get_zeros(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "f.sqlite")
    store.put("m", {"a": maps(0), "b": maps(1)}, {"a": (bytes(range(256)) * 5)[:LOOK]})
    found = [store.get("m", key, SHAPE) for key in "ab"]
    assert [each and each[1] for each in found] == [(bytes(range(256)) * 5)[:LOOK], bytes(LOOK)]
