"""Recognition of files by their first bytes: files that are not photos, with advice, and HEIC photos.

HEIC photos are common on phones and readable with the extra `heif`.
"""

import functools
import re
from importlib.util import find_spec
from pathlib import PurePath

from frn.system.extras import install_command

RAW_NAMES = frozenset(
    {*(".3fr", ".arw", ".cr2", ".cr3", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef"),
     *(".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f")}
)  # fmt: skip
"""Extensions of camera raw files, mostly TIFF with a small preview in place of the photo."""
RAW = "a camera raw file. Export it as JPEG or TIFF first."
VIDEO = "a video. Save single frames as JPEG or PNG."
BEGINNINGS = {
    (b"%PDF", b"%!PS"): "a PDF or PostScript document. Export its pages as JPEG or PNG.",
    (b"PK\x03\x04", b"PK\x05\x06"): "a zip archive. Unpack it first.",
    (b"Rar!", b"7z\xbc\xaf\x27\x1c", b"\x1f\x8b"): "a RAR, 7z or gzip archive. Unpack it first.",
    (b"\x1a\x45\xdf\xa3", b"\0\0\x01\xba", b"FLV", b"OggS", b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"): VIDEO,
    (b"version https://git-lfs",): "a Git LFS pointer, not the photo. Run `git lfs pull`.",
    (b"8BPS", b"gimp xcf"): "a Photoshop or GIMP document. Export it as JPEG or PNG.",
    (b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51"): "a JPEG 2000 image, which is not supported. Convert it to JPEG or PNG.",
    (b"\0\0\0\x0cJXL ", b"\xff\x0a"): "a JPEG XL image, which is not supported. Convert it to JPEG or PNG.",
    (b"\0\0\x01\0",): "an icon, which is not supported. Convert it to PNG.",
    (b"FUJIFILMCCD-RAW", b"FOVb"): RAW,
}
"""Descriptions of files by their possible first bytes."""
SUB_IFDS, SUBFILE_TYPE, DNG_VERSION = 0x014A, 0x00FE, 0xC612  # TIFF tags
MAX_ENTRIES = 512

HEIF_EXTENSIONS = frozenset({".heic", ".heif", ".hif"})
EXTENSIONS = HEIF_EXTENSIONS | set(
    ".jpg .jpeg .jpe .jfif .mpo .png .webp .avif .bmp .gif .tif .tiff .ppm .pgm".split()  # noqa: SIM905
)
HEIF_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
"""Values of bytes 8 to 12. AVIF may start the same way, but lists itself among the compatible brands."""
HEIF = "HEIF"  # Pillow's name of the format after `register_heif`


def describe(data: bytes, name: str) -> str | None:
    """Describe a file, with advice; return None if it is unknown, or may be an image."""
    if PurePath(name).suffix.lower() in RAW_NAMES:
        return RAW
    if is_heif(data) and not is_heif_readable():
        return f"a HEIC photo; reading it needs pi-heif, which is not installed: {install_command('heif')}"
    for beginnings, kind in BEGINNINGS.items():
        if data.startswith(beginnings):
            return kind
    if data[4:8] == b"ftyp" and data[8:12] == b"crx ":
        return RAW
    if (data[4:8] == b"ftyp" and data[8:11] not in (b"hei", b"hev", b"mif", b"msf", b"avi")) or (
        data[:4] == b"RIFF" and data[8:12] == b"AVI "
    ):
        return VIDEO
    if is_raw(data):
        return RAW
    text = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").lower()  # bytes of text that identify a web page or drawing
    if re.match(rb"(<\?xml.*?)?(<!--.*?-->|<!doctype svg.*?>|\s)*<svg\b", text, re.DOTALL):
        return "an SVG drawing. Export it as PNG."
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "a web page, not the image on it. Fetch the image itself."
    return None


def is_raw(data: bytes) -> bool:
    """Return whether a file is a camera's TIFF whose first image is only a preview."""
    if data[:4] in (b"IIU\0", b"IIRO", b"IIRS", b"MMOR") or (data[:4] == b"II*\0" and data[8:10] == b"CR"):
        return True
    if data[:4] not in (b"II*\0", b"MM\0*"):
        return False
    order = "little" if data[:1] == b"I" else "big"

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], order)  # type: ignore[arg-type]

    start = number(4, 4)
    entries = {
        number(at, 2): number(at + 8, 4 if number(at + 2, 2) == 4 else 2)
        for at in range(start + 2, start + 2 + 12 * min(number(start, 2), MAX_ENTRIES), 12)
    }
    return DNG_VERSION in entries or (SUB_IFDS in entries and entries.get(SUBFILE_TYPE, 0) & 1 == 1)


def is_heif(data: bytes) -> bool:
    """Return whether an image file is HEIC, regardless of its name."""
    brands = data[8 : min(int.from_bytes(data[:4]), 256)]
    return data[4:8] == b"ftyp" and brands[:4] in HEIF_BRANDS and b"avif" not in brands


def is_heif_readable() -> bool:
    """Return whether the extra that reads HEIF is installed."""
    return find_spec("pi_heif") is not None


@functools.cache
def register_heif() -> None:
    """Let Pillow open HEIF, once."""
    from pi_heif import register_heif_opener

    register_heif_opener(thumbnails=False)
