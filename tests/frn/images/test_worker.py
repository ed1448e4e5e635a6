"""Decoders whose work is not bounded by the file size run in a child process and give the same pixels."""

import io
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from frn.data.prepare.writer import cropped_png
from frn.errors import FrnError
from frn.images import decoding, opening
from frn.images.opening import decode, decode_crop, decode_preview, decode_stored, is_quick
from frn.images.transforms import EvaluationTransform

HERE = Path("x.tif")


def written(kind: str, mode: str, **options: Any) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    file = io.BytesIO()
    picture = Image.fromarray(noise)
    (picture.convert("L").convert(mode) if mode in ("F", "I;16") else picture.convert(mode)).save(file, kind, **options)
    return file.getvalue()


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "is_quick", lambda data: True)


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("TIFF", "RGB", {"compression": "tiff_lzw"}),
        ("TIFF", "CMYK", {}),
        ("TIFF", "F", {}),
        ("TIFF", "P", {}),
        ("TIFF", "I;16", {}),
        ("BMP", "P", {}),
        ("PPM", "1", {}),
    ],
)
def test_child_process_gives_the_same_pixels(
    kind: str, mode: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, transform = written(kind, mode, **options), EvaluationTransform(size=32)
    assert not is_quick(data)
    for large in (decoding.LARGE, 0):
        monkeypatch.setattr(decoding, "LARGE", large)
        there = decode(data, HERE), decode_stored(data, "x"), decode_crop(data, HERE, transform)
        preview = decode_preview(data, HERE, transform)
        with monkeypatch.context() as patched:
            in_this_process(patched)
            assert decode(data, HERE).tobytes() == there[0].tobytes()
            stored = decode_stored(data, "x")
            assert (stored.mode, stored.tobytes()) == (there[1].mode, there[1].tobytes())
            np.testing.assert_array_equal(decode_crop(data, HERE, transform), there[2])
            assert decode_preview(data, HERE, transform)[1] == preview[1] == (70, 50)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_child_process_keeps_grey_and_the_profile(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = written("PNG", mode, icc_profile=profile)
    here = cropped_png(data, "x", (0, 0, 9, 9))
    monkeypatch.setattr(opening, "QUICK_BYTES", 0)
    assert cropped_png(data, "x", (0, 0, 9, 9)) == here
    assert decode_stored(data, "x").mode == mode
    assert decode_stored(data, "x").info["icc_profile"] == profile


def runs_of_bytes(width: int) -> bytes:
    """A BMP whose single row ends immediately, so the rest is filled byte by byte."""
    header = struct.pack("<IiiHHIIiiII", 40, width, 1, 1, 8, 1, 4, 1, 1, 256, 0)
    return b"BM" + struct.pack("<IHHI", 1082, 0, 0, 1078) + header + bytes(1024) + b"\1\7\0\0"


def test_endless_decoder_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    decode(written("BMP", "P"), HERE)  # start the child process beforehand
    monkeypatch.setattr(opening, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(FrnError, match=r"^x\.tif: cannot be decoded: the decoder took longer than 0.5 s$"):
        decode(runs_of_bytes(100_000_000), HERE)
    assert time.monotonic() - began < 5
    monkeypatch.setattr(opening, "SECONDS", 20.0)
    assert decode(runs_of_bytes(100), HERE).size == (100, 1)


def test_jpeg_with_many_scans_is_decoded_in_a_child() -> None:
    data = written("JPEG", "RGB", progressive=True)
    assert is_quick(data)
    scan = data.rindex(opening.JPEG_SCAN)
    assert not is_quick(data[:scan] + data[scan:-2] * 20 + data[-2:])


@pytest.mark.parametrize("kind", [ValueError, OSError, OverflowError, AssertionError, KeyError, RecursionError])
@pytest.mark.parametrize("words", ["two\nlines", "", "x" * 999])
def test_any_decoder_error_gives_a_one_line_error(
    kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object, **__: object) -> Image.Image:
        raise kind(words)

    data = written("PNG", "RGB")
    monkeypatch.setattr(Image, "open", stumble)
    for door in (lambda: decode(data, HERE), lambda: cropped_png(data, str(HERE), (0, 0, 9, 9))):
        with pytest.raises(FrnError, match=r"^x\.tif: is damaged") as caught:
            door()
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 300


def test_a_box_that_ends_before_it_begins_gives_a_one_line_error() -> None:
    for kind, mode in (("PNG", "RGB"), ("TIFF", "LAB"), ("TIFF", "F")):
        with pytest.raises(FrnError, match=r"^x: cannot be cropped") as caught:
            cropped_png(written(kind, mode), "x", (0, 0, -4, 3))
        assert "\n" not in str(caught.value)
