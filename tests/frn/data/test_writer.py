"""Photos with an EXIF tag: benchmark images stay as stored, but your own photos are turned upright."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.data.prepare import prepare, writer
from frn.data.prepare.writer import as_stored, cropped_png
from frn.errors import FrnError
from frn.images.opening import open_image

ORIENTATION = 0x0112


def turned(orientation: int) -> bytes:
    """A 24 x 16 pixel JPEG with a dark left side and an EXIF tag."""
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[:, 12:] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_removing_the_exif_data_changes_no_pixel(orientation: int) -> None:
    data = turned(orientation)
    plain = as_stored(data)
    assert len(plain) == len(data)
    with Image.open(io.BytesIO(plain)) as image, Image.open(io.BytesIO(data)) as tagged:
        assert not image.getexif()
        assert np.array_equal(np.asarray(image), np.asarray(tagged))


def test_files_without_exif_data_are_unchanged() -> None:
    data = turned(6)
    without = io.BytesIO()
    Image.new("RGB", (8, 8)).save(without, "JPEG")
    for other in (without.getvalue(), b"", b"\xff\xd8", b"GIF89a" + data, data[: data.index(b"Exif") + 3]):
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


def test_image_that_is_slow_to_write_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, "TIFF")
    assert cropped_png(file.getvalue(), "x", (0, 0, 9, 9))
    monkeypatch.setattr(writer, "MAX_PIXELS", 599)
    with pytest.raises(FrnError, match="x: is 30 x 20 pixels; the limit for an image"):
        cropped_png(file.getvalue(), "x", (0, 0, 9, 9))
