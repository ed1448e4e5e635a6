"""Caches on disk: their limit, removal of the least recently used entries, without other losses."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.errors import FrnError
from frn.features.feature_cache import FeatureStore
from frn.system import caches
from frn.system.caches import cache_folder
from frn.system.files import LOCK, beside
from frn.system.processes.locks import lock

HOURS = 3600.0


def write(folder: Path) -> Path:
    (folder / "class").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "class" / "0.png")
    return folder


def used(name: str, hours_ago: float) -> None:
    """Set back the time at which a split's cache was last used."""
    (home,) = (home for _, _, home in caches.cached_splits() if name_of(home) == name)
    then = time.time() - hours_ago * HOURS
    os.utime(home / caches.USED, (then, then))


def name_of(home: Path) -> str:
    return Path(json.loads((home / caches.INDEX).read_text())["of"]).name


def kept() -> list[str]:
    return [name_of(home) for _, _, home in caches.cached_splits()]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for name, hours in (("b", 3.0), ("a", 2.0), ("c", 0.0)):
        load_images(scan(write(tmp_path / name)), 16)
        used(name, hours)
    return tmp_path


def test_least_recently_used_split_is_removed_first(three: Path) -> None:
    assert kept() == ["b", "a", "c"]
    load_images(scan(three / "b"), 16)  # used again, so it is not removed first
    assert kept()[0] == "a"
    used("b", 1.5)
    sizes = [size for _, size, _ in caches.cached_splits()]
    caches.trim(sum(sizes))
    assert kept() == ["a", "b", "c"]
    caches.trim(sum(sizes) - 1)
    assert kept() == ["b", "c"]
    caches.trim(0)
    assert kept() == ["c"], "what was used within the hour stays: a run reads several splits"


def test_new_split_removes_old_ones_to_fit(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRN_CACHE_LIMIT", "0")
    stored = load_images(scan(write(three / "d")), 16)
    assert kept() == ["c", "d"]
    assert stored.images().shape == (1, 16, 16, 3)
    monkeypatch.setenv("FRN_CACHE_LIMIT", "1e300")  # a valid number of GiB, but not of bytes
    with pytest.raises(FrnError, match="it must be a number of GiB"):
        caches.limit_in_bytes()
    monkeypatch.setenv("FRN_CACHE_LIMIT", "much")
    with pytest.raises(FrnError, match="FRN_CACHE_LIMIT is 'much'; it must be a number of GiB, such as 20"):
        load_images(scan(three / "d"), 16)  # although the cache already exists


def images() -> Path:
    return cache_folder() / caches.IMAGES


def test_leftovers_of_a_killed_program_are_removed_and_files_in_use_are_kept(three: Path) -> None:
    left, recent, busy = (images() / f".{letter * 24}.frn-part" for letter in "abc")
    for home in (left, recent, busy):
        home.mkdir()
        (home / "pixels").write_bytes(b"half")
        if home != recent:
            os.utime(home, (0, 0))
    with lock(beside(images() / ("c" * 24), LOCK), "c"):
        caches.trim(1 << 30)
    assert (left.exists(), recent.exists(), busy.exists()) == (False, True, True)
    assert kept() == ["b", "a", "c"]


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_cache_folder_with_unrelated_content_is_left_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = tmp_path / "photos"
    for name in ("images/2019-wedding", "images/holiday", f"images/{'a' * 24}"):
        write(photos / name)
    (photos / caches.FEATURES).write_bytes(b"SQLite format 3\0 of someone")
    before = tree(photos)
    for home in photos.rglob("*"):
        os.utime(home, (0, 0))
    monkeypatch.setenv("FRN_CACHE", str(photos))
    monkeypatch.setenv("FRN_CACHE_LIMIT", "0")
    load_images(scan(write(tmp_path / "a")), 16)
    FeatureStore().put("m", {"k": np.zeros((4, 8), np.float32)})
    caches.trim(0)
    own = photos / caches.OWN_FOLDER
    assert cache_folder() == own
    assert kept() == ["a"]
    assert {name: data for name, data in tree(photos).items() if not name.startswith(caches.OWN_FOLDER)} == before


def test_no_cache_is_made_without_a_suitable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos" / caches.OWN_FOLDER).mkdir(parents=True)
    (tmp_path / "photos" / caches.OWN_FOLDER / "mine").touch()
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "photos"))
    with pytest.raises(FrnError, match=r"frn-cache: contains other files.* Set FRN_CACHE to a new folder"):
        load_images(scan(write(tmp_path / "a")), 16)
    assert FeatureStore().get("m", "k", (1, 1)) is None
    assert tree(tmp_path / "photos").keys() == {"frn-cache/mine"}


def test_unknown_files_in_the_cache_are_kept(three: Path, private_cache: Path) -> None:
    theirs = {
        private_cache / "mine.txt",
        private_cache / caches.FEATURES,
        images() / "holiday" / "photo.jpg",
        images() / ("b" * 24) / "photo.jpg",
        images() / ("c" * 24) / "index.json",
    }
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"theirs")
    home = caches.cached_splits()[0][2]
    (home / "note.txt").write_bytes(b"theirs")
    for path in images().iterdir():
        os.utime(path, (0, 0))
    caches.trim(0)
    assert {path for path in private_cache.rglob("*") if path.is_file() and path.read_bytes() == b"theirs"} == {
        *theirs,
        home / "note.txt",
    }


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_clearing_does_not_follow_links(tmp_path: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_images(scan(write(tmp_path / "a")), 16)
    monkeypatch.setenv("FRN_CACHE_LIMIT", "0")
    images().rename(tmp_path / "elsewhere")
    images().symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path / "elsewhere").rglob("*"):
        os.utime(path, (0, 0))
    before = tree(tmp_path / "elsewhere")
    caches.trim(0)
    caches.trim(0)
    assert tree(tmp_path / "elsewhere") == before
    images().unlink()
    images().mkdir()
    (home,) = (tmp_path / "elsewhere").iterdir()
    (images() / home.name).symlink_to(home)
    caches.trim(0)
    assert tree(tmp_path / "elsewhere") == before
