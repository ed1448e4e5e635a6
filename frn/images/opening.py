"""The only door to image files: what is opened, and whether it is decoded in this process or in a child.

Free of torch. Everything that leaves here is sRGB, upright, and of a bounded size.
"""

import threading
from pathlib import Path

import numpy as np
from PIL import Image

from frn.errors import FrnError
from frn.images import heif
from frn.images.decoding import DecodeRequest, decode_in_process
from frn.images.transforms import EvaluationTransform, Pixels
from frn.system.files import read_regular

EXTENSIONS = heif.EXTENSIONS | set(
    ".jpg .jpeg .jpe .jfif .mpo .png .webp .avif .bmp .gif .tif .tiff .ppm .pgm".split()  # noqa: SIM905
)

MAX_BYTES = 256 * 1024 * 1024
QUICK_BYTES = 8 << 20
"""Size limit of files decoded in this process: a header may have a million entries, read one by one."""
QUICK_SCANS = 16
"""Passes over all pixels of a JPEG; encoders make up to ten."""
QUICK = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
JPEG, JPEG_SCAN = b"\xff\xd8\xff", b"\xff\xda"
DRAFT = 2
"""A preview decodes at least so much finer than the crop needs."""

_LARGE = threading.RLock()


def open_image(path: Path) -> Image.Image:
    """Decode one image file: first frame, upright by its EXIF tag, sRGB by its ICC profile, transparency on white.

    FrnError if the file is missing, no regular file, too large, of an unknown format, or broken.
    """
    return decode(read_file(path), path)


def read_file(path: Path) -> bytes:
    """Read the bytes of an image file; never of a pipe or device, which could have no end.

    FrnError if the file is missing, no regular file, empty, or larger than `MAX_BYTES`.
    """
    data = read_regular(path, MAX_BYTES)
    if not data:
        raise FrnError(f"{path}: is empty (0 bytes)")
    return data


def decode(data: bytes, where: Path) -> Image.Image:
    """Decode the bytes of an image file, as `open_image` does; `where` is what to call it in a message.

    FrnError if it has more than `MAX_PIXELS`, is of an unknown format, or broken.
    """
    return _decode(data, str(where), DecodeRequest())[0]


def decode_stored(data: bytes, where: str) -> Image.Image:
    """Decode an image in its own mode and orientation. FrnError as `decode`."""
    return _decode(data, where, DecodeRequest(stored=True))[0]


def decode_crop(data: bytes, where: Path, transform: EvaluationTransform) -> Pixels:
    """Decode and crop. Large images are decoded one at a time, whatever thread calls: two may not fit into memory.

    The same pixels as of `decode`, without a second picture of full size on the way. FrnError as `decode`.
    """
    return np.asarray(_decode(data, str(where), DecodeRequest(transform=transform))[0])


def decode_preview(data: bytes, where: Path, transform: EvaluationTransform) -> tuple[Pixels, tuple[int, int]]:
    """As `decode_crop`, for display only: a JPEG is decoded only as finely as the crop needs, in a third of the time.

    Returns the crop, and the (width, height) of the whole image, upright. FrnError as `decode`.
    """
    draft = DRAFT * (transform.resize or transform.size)
    image, size = _decode(data, str(where), DecodeRequest(transform=transform, draft=draft))
    return np.asarray(image), size


def decode_whole(data: bytes, where: Path, longest: int) -> tuple[Pixels, tuple[int, int]]:
    """Decode the whole frame for display: the longer side has at most `longest` pixels, a JPEG is decoded no finer.

    Returns the pixels (h, w, 3), and the (width, height) of the file's image, upright. FrnError as `decode`.
    """
    image, size = _decode(data, str(where), DecodeRequest(draft=longest, longest=longest))
    return np.asarray(image), size


def _decode(data: bytes, where: str, request: DecodeRequest) -> tuple[Image.Image, tuple[int, int]]:
    """The image asked for, and the (width, height) of the whole one, upright."""
    heif.require(data, where)
    if is_quick(data):
        return decode_in_process(data, where, request, _LARGE)
    from frn.images.worker import decode_in_worker  # here: most images are decoded in this process

    return decode_in_worker(data, where, request, _LARGE)


def is_quick(data: bytes) -> bool:
    """Return whether the work of decoding is bounded by the size of the file and its pixels, whatever the file says.

    It is not for compressed TIFF and BMP, whose decoders have loops of their own, nor for a JPEG with any number of
    scans over all of its pixels.
    """
    if len(data) > QUICK_BYTES:
        return False
    if data.startswith(JPEG):
        return data.count(JPEG_SCAN) <= QUICK_SCANS
    return data.startswith(QUICK) or data[:4] + data[8:12] == b"RIFFWEBP"
