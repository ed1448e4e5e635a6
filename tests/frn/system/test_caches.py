"""The caches on disk: a limit, the longest unused first, moved and cleared without losing anything else."""

import errno
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from frn.cli.main import app
from frn.data.folders import scan
from frn.data.pixel_cache import load_images
from frn.errors import FrnError
from frn.system import caches
from frn.system.files import cache_folder

HOURS = 3600.0


def write(folder: Path) -> Path:
    (folder / "class").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "class" / "0.png")
    return folder


def used(name: str, hours_ago: float) -> None:
    """Date the use of a split's cache back."""
    (split,) = (split for split in caches.cached_splits() if Path(split.of).name == name)
    then = time.time() - hours_ago * HOURS
    os.utime(split.path / caches.USED, (then, then))


def kept() -> list[str]:
    return [Path(split.of).name for split in caches.cached_splits()]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for name, hours in (("b", 3.0), ("a", 2.0), ("c", 0.0)):
        load_images(scan(write(tmp_path / name)), 16)
        used(name, hours)
    return tmp_path


def test_what_was_not_used_for_the_longest_goes_first(three: Path) -> None:
    assert kept() == ["b", "a", "c"]
    load_images(scan(three / "b"), 16)  # used again: no longer the first to go
    assert kept()[0] == "a"
    used("b", 1.5)
    sizes = [split.size for split in caches.cached_splits()]
    assert caches.trim(sum(sizes)) == 0
    assert caches.trim(sum(sizes) - 1) == sizes[0]
    assert kept() == ["b", "c"]
    caches.trim(0)
    assert kept() == ["c"], "what was used within the hour stays: a run reads several splits"


def test_a_new_split_makes_room_for_itself(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRN_CACHE_LIMIT", "0")
    stored = load_images(scan(write(three / "d")), 16)
    assert kept() == ["c", "d"]
    assert stored.images().shape == (1, 16, 16, 3)
    monkeypatch.setenv("FRN_CACHE_LIMIT", "1e300")  # a number of GiB, and none of bytes
    with pytest.raises(FrnError, match="it must be a number of GiB"):
        caches.limit_in_bytes()
    monkeypatch.setenv("FRN_CACHE_LIMIT", "much")
    with pytest.raises(FrnError, match="FRN_CACHE_LIMIT is 'much'; it must be a number of GiB, such as 20"):
        load_images(scan(three / "d"), 16)  # which is there already


def test_pixels_are_checked_once_and_again_when_their_file_has_changed(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    monkeypatch.setattr("frn.data.pixel_cache._crc32", lambda pixels: read.append(len(pixels)))
    load_images(scan(three / "a"), 16)
    assert read == []
    (split,) = (split for split in caches.cached_splits() if Path(split.of).name == "a")
    os.utime(split.path / "pixels")
    with pytest.raises(FrnError, match="the cache cannot be read back"):  # for there is no checksum to agree with
        load_images(scan(three / "a"), 16)
    assert read == [16 * 16 * 3] * 3, "as it was, once more when no other process builds it, and as it was built"


def test_what_a_killed_program_has_left_is_swept_and_what_another_is_at_is_not(three: Path) -> None:
    left, busy = (cache_folder() / caches.IMAGES / f"{caches.UNFINISHED}{name}" for name in ("left", "busy"))
    for home in (left, busy):
        home.mkdir()
        (home / "pixels").write_bytes(b"half")
    for path in (left / "pixels", left):
        os.utime(path, (0, 0))
    caches.trim()
    assert (left.exists(), busy.exists()) == (False, True)
    assert kept() == ["b", "a", "c"]


def test_frn_cache_shows_and_clears(three: Path, private_cache: Path) -> None:
    (private_cache / "features.sqlite").write_bytes(b"x" * 100)
    (private_cache / "mine.txt").write_text("not of a cache")
    found = json.loads(CliRunner().invoke(app, ["cache", "--json"]).stdout)
    assert found["folder"] == str(private_cache)
    assert found["limit"] == 10 * 2**30
    assert [Path(entry["of"]).name for entry in found["images"]] == ["b", "a", "c"]
    assert [entry["images"] for entry in found["images"]] == [1, 1, 1]
    assert found["features"] == {"bytes": 100}
    shown = CliRunner().invoke(app, ["cache"]).stdout
    assert str(three / "a") in shown
    assert "of 10.0 GiB allowed" in shown
    assert CliRunner().invoke(app, ["cache", "clear", "--unused", "0.1"]).stdout.startswith("freed 0.0 MiB")
    assert kept() == ["a", "c"]
    CliRunner().invoke(app, ["cache", "clear"])
    assert kept() == []
    assert [path.name for path in private_cache.iterdir() if path.is_file()] == ["mine.txt"]


def test_moved_caches_are_used_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    refused = CliRunner().invoke(app, ["cache", "move", str(tmp_path / "new")])
    assert refused.stderr.startswith("error: FRN_CACHE says where the caches are")
    monkeypatch.delenv("FRN_CACHE")
    load_images(scan(write(tmp_path / "a")), 16)
    old = cache_folder()
    (old / "features.sqlite").write_bytes(b"maps")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(FrnError, match=r"taken: holds something else \(file\)"):
        caches.move(tmp_path / "taken")
    with pytest.raises(FrnError, match="lies inside"):
        caches.move(old / "below")
    assert CliRunner().invoke(app, ["cache", "move", str(tmp_path / "new")]).exit_code == 0
    assert cache_folder() == tmp_path / "new"
    assert (tmp_path / "new" / "features.sqlite").read_bytes() == b"maps"
    assert kept() == ["a"]
    assert list((old / caches.IMAGES).iterdir()) == []
    monkeypatch.setattr("frn.data.pixel_cache._build", None)  # nothing is decoded again
    assert len(load_images(scan(tmp_path / "a"), 16)) == 1


def test_a_move_to_another_disk_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "pixels").write_bytes(b"whole")
    real = Path.rename

    def rename(path: Path, to: Path) -> Path:
        if path == source:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    caches._move_folder(source, target)
    assert (target / "pixels").read_bytes() == b"whole"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["target"]
