"""Files that are not photos, and photos that are slightly damaged."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from frn.errors import FrnError
from frn.images import decoding, opening
from frn.images.opening import open_image
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
