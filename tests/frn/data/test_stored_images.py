"""Photos with an EXIF tag: benchmark images stay as stored, but your own photos are turned upright."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.data.prepare import prepare, stored_images
from frn.data.prepare.stored_images import as_stored, to_png
from frn.errors import FrnError
from frn.images.opening import open_image

ORIENTATION = 0x0112


def turned(orientation: int, *, big_endian: bool = False) -> bytes:
    """A 24 x 16 pixel JPEG with a dark left side and an EXIF tag."""
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, 12:] = 255
    exif = Image.Exif()
    exif.endian = ">" if big_endian else "<"
    exif[0x010F] = "a camera"
    exif[ORIENTATION] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_removing_the_orientation_tag_changes_nothing_else(orientation: int, big_endian: bool) -> None:
    data = turned(orientation, big_endian=big_endian)
    plain = as_stored(data)
    assert len(plain) == len(data)
    assert sum(a != b for a, b in zip(plain, data, strict=True)) == (orientation != 1)
    with Image.open(io.BytesIO(plain)) as image:
        assert image.getexif()[ORIENTATION] == 1
        assert image.getexif()[0x010F] == "a camera"


def test_files_without_a_usable_orientation_tag_are_unchanged() -> None:
    data = turned(6)
    start = data.index(b"Exif\0\0")
    without = io.BytesIO()
    Image.new("RGB", (8, 8)).save(without, "JPEG")
    torn = [data[: start + cut] for cut in (3, 6, 10, 14, 16, 24, 30)]
    lost = data[: start + 10] + b"\xff\xff\xff\x7f" + data[start + 14 :]
    for other in (without.getvalue(), b"", b"\xff\xd8", b"GIF89a" + data, lost, *torn):
        assert as_stored(other) == other


def test_benchmarks_keep_the_stored_orientation_but_own_photos_are_turned_upright(tmp_path: Path) -> None:
    home = tmp_path / "tiered_imagenet"
    for place in ("train/n1/a.JPEG", "val/n2/a.JPEG", "test/n3/a.JPEG"):
        (home / place).parent.mkdir(parents=True)
        (home / place).write_bytes(turned(6))
    prepare("tiered-imagenet-224", [tmp_path], tmp_path / "benchmark", unofficial=True)
    prepare("folder", [home], tmp_path / "own")
    stored = open_image(tmp_path / "benchmark/train/n1/a.JPEG")
    upright = open_image(tmp_path / "own/train/n1/a.JPEG")
    assert (stored.size, upright.size) == ((24, 16), (16, 24))
    assert np.array_equal(np.asarray(stored), np.asarray(upright.transpose(Image.Transpose.ROTATE_90)))


@pytest.mark.parametrize("mode", ["RGB", "LAB"])
def test_image_that_is_slow_to_write_is_refused(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new(mode, (30, 20)).save(file, "TIFF")
    assert to_png(file.getvalue(), "x", lambda image: image)
    monkeypatch.setattr(stored_images, "MAX_PIXELS" if mode == "RGB" else "LARGE", 599)
    with pytest.raises(FrnError, match=f"x: is 30 x 20 pixels in mode {mode}; the limit for an image"):
        to_png(file.getvalue(), "x", lambda image: image)
