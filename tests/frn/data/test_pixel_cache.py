"""Images are decoded once, and a stale or incomplete cache is never used."""

import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.data.folders import scan
from frn.data.pixel_cache import ConcatImages, StoredImages, load_images
from frn.data.synthetic import draw_classes
from frn.episodes import EpisodeShape, concat_epoch, training_epoch
from frn.errors import FrnError
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.system.caches import make_cache_folder
from frn.system.files import LOCK, beside
from frn.system.processes.locks import lock

TRANSFORM = EvaluationTransform(size=16, resize=16)


def write(folder: Path, classes: int = 2, images: int = 3, size: tuple[int, int] = (24, 20)) -> Path:
    generator = np.random.default_rng(0)
    for label in range(classes):
        (folder / f"class {label}").mkdir(parents=True)
        for number in range(images):
            noise = generator.integers(0, 255, (size[1], size[0] + number, 3), dtype=np.uint8)
            Image.fromarray(noise).save(folder / f"class {label}" / f"{number}.png")
    return folder


class Decodes:
    """Count calls of `open_image`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def counted(path: Path) -> Image.Image:
            self.count += 1
            return open_image(path)

        monkeypatch.setattr("frn.data.pixel_cache.open_image", counted)


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Decodes:
    return Decodes(monkeypatch)


def test_pixels_equal_the_transform_and_are_decoded_once(tmp_path: Path, decodes: Decodes) -> None:
    folders = scan(write(tmp_path / "data"))
    first = load_images(folders, TRANSFORM)
    again = load_images(folders, TRANSFORM)
    assert decodes.count == 6
    expected = np.stack([TRANSFORM(Image.open(path).convert("RGB")) for path in folders.paths])
    assert np.array_equal(first.images(), expected)
    assert np.array_equal(again.images(), expected)
    assert (first.names, first.sizes) == (("class 0", "class 1"), (3, 3))


def test_images_of_different_sizes_share_a_canvas(tmp_path: Path) -> None:
    folders = scan(write(tmp_path / "data"))
    stored = load_images(folders, 100)
    canvas, extents = stored.gather([4, 0, 5])
    assert not stored.is_uniform
    assert extents.tolist() == [[20, 25], [20, 24], [20, 26]]
    for row, index in enumerate((4, 0, 5)):
        h, w = extents[row]
        assert np.array_equal(canvas[row, :h, :w], np.asarray(Image.open(folders.paths[index])))
        assert not canvas[row, :, w:].any()


def test_changed_file_is_detected_despite_the_same_size_and_date(tmp_path: Path, decodes: Decodes) -> None:
    folder = write(tmp_path / "data")
    before = load_images(scan(folder), TRANSFORM)
    path = folder / "class 0" / "0.png"
    status = path.stat()
    data = bytearray(path.read_bytes())
    Image.new("RGB", (24, 20), "red").save(path)
    path.write_bytes(path.read_bytes().ljust(len(data), b"\0")[: len(data)])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = load_images(scan(folder), TRANSFORM)
    assert decodes.count == 12
    assert not np.array_equal(before.images()[0], after.images()[0])
    assert before.checksum != after.checksum


INDEXES: dict[str, Callable[[str], str]] = {
    "other version": lambda text: text.replace('"version": 4', '"version": 1'),
    "other checksum of the pixels": lambda text: re.sub('"pixels_crc32": .', '"pixels_crc32": 9', text),
    "no checksum of the pixels": lambda text: re.sub('"pixels_crc32": [0-9]+,', "", text),
    "infinite": lambda text: re.sub('"pixels_crc32": [0-9]+', '"pixels_crc32": 1e999', text),
    "other names": lambda text: text.replace("class 1", "class 0"),
    "a list": lambda text: f"[{text}]",
    "nothing": lambda text: "null",
}
"""Possible damage to the text in an index file."""


@pytest.mark.parametrize("damage", ["short", "flipped", "no index", "bad index", *INDEXES])
def test_damaged_cache_is_built_again(tmp_path: Path, private_cache: Path, decodes: Decodes, damage: str) -> None:
    folders = scan(write(tmp_path / "data"))
    expected = load_images(folders, TRANSFORM).images().copy()
    (home,) = (private_cache / "images").iterdir()
    pixels, index = home / "pixels", home / "index.json"
    if damage == "short":
        pixels.write_bytes(pixels.read_bytes()[:-1])
    elif damage == "flipped":
        data = bytearray(pixels.read_bytes())
        data[7] ^= 1
        pixels.write_bytes(data)
    elif damage == "no index":
        index.unlink()
    elif damage == "bad index":
        index.write_text(index.read_text()[:-20])
    else:
        changed = INDEXES[damage](index.read_text())
        assert changed != index.read_text()
        index.write_text(changed)
    assert np.array_equal(load_images(folders, TRANSFORM).images(), expected)
    assert decodes.count == 12
    assert [entry.name for entry in (private_cache / "images").iterdir()] == [home.name]  # no files are left


def test_a_broken_file_is_skipped_and_reported(tmp_path: Path, truncated_jpeg: Path) -> None:
    folder = write(tmp_path / "data")
    truncated_jpeg.rename(folder / "class 1" / "9.jpg")
    stored = load_images(scan(folder), TRANSFORM)
    assert stored.sizes == (3, 3)
    assert [entry.path for entry in stored.broken] == [str(Path("class 1") / "9.jpg")]


def test_a_class_without_a_readable_image_stops_the_run(tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    (folder / "empty class").mkdir()
    assert [str(each) for each in scan(folder).skipped] == [f"{folder / 'empty class'}: is skipped: it has no photos"]
    (folder / "empty class" / "note.png").write_text("text")
    with pytest.raises(FrnError, match="none of its images can be read"):
        load_images(scan(folder), TRANSFORM)


def test_error_about_an_unwritable_cache_suggests_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "file"))
    with pytest.raises(FrnError, match=r"cannot be stored there .*FRN_CACHE"):
        load_images(scan(write(tmp_path / "data")), TRANSFORM)


def test_a_missing_or_flat_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="cannot be listed"):
        scan(tmp_path / "none")
    with pytest.raises(FrnError, match="has no class folders"):
        scan(tmp_path)


def test_interrupt_does_not_wait_for_remaining_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: Path) -> Image.Image:
        if path.name == "0.png":
            raise KeyboardInterrupt
        time.sleep(0.2)
        return open_image(path)

    monkeypatch.setattr("frn.data.pixel_cache.open_image", interrupted)
    folders = scan(write(tmp_path / "data", classes=1, images=200))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        load_images(folders, TRANSFORM)
    assert time.monotonic() - began < 5


@pytest.mark.skipif(os.name == "nt", reason="no locks that end with a process there")
def test_only_one_of_concurrent_programs_decodes(tmp_path: Path, private_cache: Path, decodes: Decodes) -> None:
    folders, together = scan(write(tmp_path / "data")), threading.Barrier(8)

    def load(_: int) -> StoredImages:
        together.wait()
        return load_images(folders, 16)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(load, range(8)))
    assert decodes.count == len(folders.paths)
    assert all(np.array_equal(stored.pixels, found[0].pixels) for stored in found)
    assert len(list((private_cache / "images").iterdir())) == 1, "a lock stays behind"


def test_unfinished_files_are_removed_unless_their_program_is_running(moths: Path, private_cache: Path) -> None:
    images = make_cache_folder() / "images"
    left, held = (images / f".{letter * 24}.frn-part" for letter in "ab")
    for folder in (left, held):
        folder.mkdir(parents=True)
        (folder / "pixels").write_bytes(bytes(99))
        os.utime(folder, (0, 0))
    with lock(beside(images / ("b" * 24), LOCK), "held"):
        load_images(scan(moths / "val"), 16)
        assert (left.exists(), held.exists()) == (False, True)


SHAPE = EpisodeShape(way=3, shot=1, queries=2)


@pytest.fixture(scope="module")
def parts() -> tuple[StoredImages, ...]:
    return draw_classes(4, 6, size=16, seed=0), draw_classes(3, 5, size=24, seed=1)


def test_canvas_holds_the_images_from_all_data_sets_in_order(parts: tuple[StoredImages, ...]) -> None:
    canvas, extents = ConcatImages(parts).gather([24, 0, 38, 23])
    assert extents.tolist() == [[24, 24], [16, 16], [24, 24], [16, 16]]
    for row, (part, image) in enumerate([(1, 0), (0, 0), (1, 14), (0, 23)]):
        side = extents[row][0]
        np.testing.assert_array_equal(canvas[row, :side, :side], parts[part].images()[image])
        assert not canvas[row, side:].any()


def test_no_episode_mixes_data_sets_and_each_data_set_has_its_own_epoch() -> None:
    sets = ((20, 20, 20, 20), (9, 9, 9))
    episodes = concat_epoch(sets, SHAPE, seed=0, epoch=1)
    first = [episode for episode in episodes if episode.max() < 80]
    second = [episode - 80 for episode in episodes if episode.min() >= 80]
    assert len(first) + len(second) == len(episodes)
    for found, sizes in ((first, sets[0]), (second, sets[1])):
        own = training_epoch(sizes, SHAPE, seed=0, epoch=1)
        assert sorted(episode.tolist() for episode in found) == sorted(episode.tolist() for episode in own)
    of_first = [episode.max() < 80 for episode in episodes]
    assert of_first != sorted(of_first, reverse=True)  # interleaved
