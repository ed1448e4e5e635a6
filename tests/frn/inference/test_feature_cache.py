"""The feature cache: the same answers with and without it, whatever is wrong with it."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from frn.inference.feature_cache import FeatureStore, Maps, content_key
from tests import processes


def maps(seed: int, r: int = 4, d: int = 8) -> Maps:
    return np.random.default_rng(seed).standard_normal((r, d)).astype(np.float32)


def test_what_is_put_is_found_to_the_last_bit_by_model_and_content(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "f.sqlite")
    store.put("m", {"a": maps(0), "b": maps(1, r=9)})
    store.close()
    again = FeatureStore(tmp_path / "f.sqlite")
    for key, expected in (("a", maps(0)), ("b", maps(1, r=9))):
        found = again.get("m", key)
        assert found is not None
        np.testing.assert_array_equal(found, expected)
    assert again.get("other model", "a") is None
    assert again.get("m", "c") is None


def test_the_longest_unused_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000, 90_000_000, 10_000))
    monkeypatch.setattr("frn.inference.feature_cache.time.time", lambda: next(clock))
    store = FeatureStore(tmp_path / "f.sqlite", limit=200_000)
    for number in range(40):
        store.put("m", {str(number): maps(number, r=25, d=64)})  # 6.4 kB each
        store.get("m", "0")  # in use all the time
    kept = [number for number in range(40) if store.get("m", str(number)) is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(kept[1], 40))
    assert 10 < len(kept) < 30


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "f.sqlite"
    path.write_bytes(content)
    store = FeatureStore(path)
    store.put("m", {"a": maps(0)})
    assert store.get("m", "a") is not None


def test_where_nothing_can_be_kept_nothing_fails(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("no folder")
    store = FeatureStore(blocker / "f.sqlite")
    store.put("m", {"a": maps(0)})
    assert store.get("m", "a") is None


@pytest.mark.skipif(not Path("/dev/full").exists() or os.name == "nt", reason="needs a small disk limit")
def test_a_full_disk_ends_the_caching_not_the_program(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys, numpy as np; from pathlib import Path\n"
        "from frn.inference.feature_cache import FeatureStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = FeatureStore(Path(sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "for n in range(100): store.put('m', {str(n): np.zeros((25, 64), np.float32)})\n"
        "print(store.get('m', '0') is None or 'kept')"
    )
    result = processes.run([sys.executable, "-c", code, str(tmp_path / "f.sqlite")])
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_two_programs_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite"
    one, two = FeatureStore(path), FeatureStore(path)
    for number in range(20):
        (one, two)[number % 2].put("m", {str(number): maps(number)})
    assert all(store.get("m", str(number)) is not None for store in (one, two) for number in range(20))


def test_a_key_is_the_content() -> None:
    assert content_key(b"a") == content_key(b"a") != content_key(b"b")
    assert len(content_key(b"")) == 32
