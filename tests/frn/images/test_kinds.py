"""Kinds of files, and decoders in a child process."""

import io
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from frn.data.prepare.writer import cropped_png
from frn.errors import FrnError
from frn.images import decoding, opening
from frn.images.opening import decode, decode_crop, decode_preview, decode_stored, is_quick, open_image
from frn.images.transforms import EvaluationTransform
from frn.projects.folder_tree import photos_below


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "a")
    return buffer.getvalue()


def raw(tags: dict[int, int]) -> bytes:
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(64)


KINDS = {
    "PDF": (b"%PDF-1.7\n...", "a PDF or PostScript document"),
    "zip": (zipped(), "a zip archive"),
    "SVG": (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "an SVG drawing"),
    "SVG alone": (b"\n<svg width='3'/>", "an SVG drawing"),
    "HTML": (b"<!DOCTYPE html><html><body>404</body></html>", "a web page"),
    "MP4": (struct.pack(">I", 24) + b"ftypisom\0\0\2\0isomiso2", "a video"),
    "MOV": (struct.pack(">I", 20) + b"ftypqt  \0\0\2\0qt  ", "a video"),
    "Matroska": (b"\x1a\x45\xdf\xa3" + bytes(40), "a video"),
    "AVI": (b"RIFF\x10\0\0\0AVI LIST", "a video"),
    "Ogg": (b"OggS" + bytes(40), "a video"),
    "WMV": (bytes.fromhex("3026b2758e66cf11") + bytes(20), "a video"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "a Git LFS pointer"),
    "Photoshop": (b"8BPS\0\1" + bytes(20), "a Photoshop or GIMP document"),
    "JPEG XL": (b"\xff\x0a" + bytes(20), "a JPEG XL image"),
    "NEF": (raw({0xFE: 1, 0x100: 160, 0x101: 120, 0x14A: 500}), "a camera raw file"),
    "DNG": (raw({0xFE: 1, 0xC612: 4}), "a camera raw file"),
    "CR2": (b"II*\0\x10\0\0\0CR\2\0" + bytes(40), "a camera raw file"),
    "CR3": (struct.pack(">I", 24) + b"ftypcrx \0\0\0\1crx isom", "a camera raw file"),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_a_file_is_described_by_its_content_not_its_name(tmp_path: Path, name: str, suffix: str) -> None:
    data, kind = KINDS[name]
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with pytest.raises(FrnError, match=f"is {kind}"):
        open_image(path)


def test_plain_tiffs_are_not_camera_raw_files(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "x.tif")
    assert open_image(tmp_path / "x.tif").size == (9, 9)


def test_multi_frame_camera_image_is_read_identically_in_a_folder_and_alone(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "x.mpo", save_all=True, append_images=frames[1:])
    assert photos_below(tmp_path)[0] == [tmp_path / "x.mpo"]
    red = np.asarray(open_image(tmp_path / "x.mpo"))[0, 0]
    assert red[0] > 240
    assert red[2] < 20


def test_folder_listing_and_opening_describe_raw_files_alike(tmp_path: Path) -> None:
    for name in ("a.nef", "b.CR2", "c.dng"):
        (tmp_path / name).write_bytes(KINDS["NEF"][0])
        with pytest.raises(FrnError, match="is a camera raw file"):
            open_image(tmp_path / name)
    images, skipped = photos_below(tmp_path)
    assert not images
    assert all("camera raw file" in entry.reason for entry in skipped)


def photo(path: Path, **options: object) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((320, 240)).save(path, "JPEG", **options)
    return path.read_bytes()


@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_without_end_marker_is_read(tmp_path: Path, progressive: bool) -> None:
    path = tmp_path / "x.jpg"
    data = photo(path, progressive=progressive)
    whole = np.asarray(open_image(path))
    path.write_bytes(data[:-2])
    np.testing.assert_array_equal(np.asarray(open_image(path)), whole)


@pytest.mark.parametrize("lost", [40, 400, 4000])
def test_jpeg_with_missing_pixels_is_damaged(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "x.jpg"
    data = photo(path)
    path.write_bytes(data[:-lost])
    with pytest.raises(FrnError, match="is damaged"):
        open_image(path)


def test_jpeg_of_200_megapixels_is_read_at_lower_resolution(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    Image.new("L", (16320, 12240), 77).save(path)
    crop, size = opening.decode_whole(path.read_bytes(), path, 64)
    assert size == (16320, 12240)
    assert (crop == 77).all()
    assert open_image(path).size == (16320 // decoding.COARSE, 12240 // decoding.COARSE)


def test_other_formats_and_larger_jpegs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MAX_PIXELS", 10_000)
    monkeypatch.setattr(decoding, "MAX_JPEG_PIXELS", 40_000)
    Image.new("L", (110, 100)).save(tmp_path / "x.png")
    Image.new("L", (210, 200)).save(tmp_path / "x.jpg")
    for name in ("x.png", "x.jpg"):
        with pytest.raises(FrnError, match="Scale it down"):
            open_image(tmp_path / name)


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
