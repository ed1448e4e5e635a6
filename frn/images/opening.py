"""The only door to image files: limits, formats, orientation and colour modes, and the evaluation geometry.

Free of torch. Everything that leaves here is RGB, upright, and of a bounded size.
"""

import contextlib
import io
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from frn.errors import FrnError, one_line
from frn.images import heif
from frn.images.colour import SIDEWAYS, UPRIGHT, Box, converter, shrunk, strips, to_rgb, upright
from frn.system.files import read_regular

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "BMP", "GIF", "TIFF", "PPM")
"""As Pillow calls them. HEIC is read besides, where the extra `heif` is installed."""
EXTENSIONS = heif.EXTENSIONS | {
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
}

MAX_BYTES = 256 * 1024 * 1024
MAX_PIXELS = 120_000_000
MAX_MEMORY = 600 << 20
"""Bytes that a file and what it is decoded into may take together."""
MAX_SIDE = 1024
"""Pixels that a crop for a network may have on a side."""
MAX_ASPECT = 20
"""A longer strip is cropped to this ratio about its centre before it is resized, or the result would explode."""

LARGE = 24_000_000
"""Pixels from which on an image is decoded alone."""
QUICK_BYTES = 8 << 20
"""Of a file that is decoded in this process: its header may be a million entries that are looked at one by one."""
QUICK_SCANS = 16
"""Passes over all pixels of a JPEG; encoders make up to ten."""
QUICK = (b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")
JPEG, JPEG_SCAN = b"\xff\xd8\xff", b"\xff\xda"
DRAFT = 2
"""A preview decodes at least so much finer than the crop needs."""
COARSE = 4
"""A progressive JPEG that would take more than `MAX_MEMORY` is decoded so much smaller."""
ORIENTATION, STRIP_ROWS, TILE_ROWS = 0x0112, 278, 323
"""Tags of EXIF and TIFF."""
Pixels = NDArray[np.uint8]

_LARGE = threading.RLock()


def open_image(path: Path) -> Image.Image:
    """Decode one image file: first frame, upright by its EXIF tag, RGB, transparency on white.

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
    return _decode(data, str(where), Wish())[0]


def decode_stored(data: bytes, where: str) -> Image.Image:
    """Decode an image in its own mode and orientation. FrnError as `decode`."""
    return _decode(data, where, Wish(stored=True))[0]


def decode_crop(data: bytes, where: Path, transform: "EvaluationTransform") -> Pixels:
    """Decode and crop. Large images are decoded one at a time, whatever thread calls: two may not fit into memory.

    The same pixels as of `decode`, without a second picture of full size on the way. FrnError as `decode`.
    """
    return np.asarray(_decode(data, str(where), Wish(transform=transform))[0])


def decode_preview(data: bytes, where: Path, transform: "EvaluationTransform") -> tuple[Pixels, tuple[int, int]]:
    """As `decode_crop`, for display only: a JPEG is decoded only as finely as the crop needs, in a third of the time.

    Returns the crop, and the (width, height) of the whole image, upright. FrnError as `decode`.
    """
    draft = DRAFT * (transform.resize or transform.size)
    image, size = _decode(data, str(where), Wish(transform=transform, draft=draft))
    return np.asarray(image), size


def decode_whole(data: bytes, where: Path, longest: int) -> tuple[Pixels, tuple[int, int]]:
    """Decode the whole frame for display: the longer side has at most `longest` pixels, a JPEG is decoded no finer.

    Returns the pixels (h, w, 3), and the (width, height) of the file's image, upright. FrnError as `decode`.
    """
    image, size = _decode(data, str(where), Wish(draft=longest, longest=longest))
    return np.asarray(image), size


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What is made of the bytes of an image; upright RGB of full size unless more is said."""

    transform: "EvaluationTransform | None" = None
    """The crop that it makes."""
    draft: int | None = None
    """Pixels that a side of a coarser JPEG should still have."""
    longest: int | None = None
    """Pixels that the longer side has at most."""
    stored: bool = False
    """As it is stored: in its own mode and orientation."""

    def finish(self, image: Image.Image, orientation: int) -> Image.Image:
        """Make it of a decoded image."""
        if self.transform is not None:
            return Image.fromarray(self.transform(image, orientation))
        if self.longest is not None:
            return shrunk(image, orientation, self.longest)
        return image if self.stored else upright_rgb(image)


def _decode(data: bytes, where: str, wish: Wish) -> tuple[Image.Image, tuple[int, int]]:
    """The image wished for, and the (width, height) of the whole one, upright."""
    heif.require(data, where)
    if is_quick(data):
        return decode_here(data, where, wish, _LARGE)
    from frn.images.worker import decode_there

    return decode_there(data, where, wish, _LARGE)


def is_quick(data: bytes) -> bool:
    """Whether the work of decoding is bounded by the size of the file and its pixels, whatever the file says.

    It is not for compressed TIFF and BMP, whose decoders have loops of their own, nor for a JPEG with any number of
    scans over all of its pixels.
    """
    if len(data) > QUICK_BYTES:
        return False
    if data.startswith(JPEG):
        return data.count(JPEG_SCAN) <= QUICK_SCANS
    return data.startswith(QUICK) or data[:4] + data[8:12] == b"RIFFWEBP"


def decode_here(
    data: bytes, where: str, wish: Wish, alone: contextlib.AbstractContextManager[object]
) -> tuple[Image.Image, tuple[int, int]]:
    """As `_decode`, in this process; `alone` is entered for a large image."""
    try:
        formats = (heif.FORMAT,) if heif.is_heif(data) else FORMATS
        if heif.FORMAT in formats:
            heif.register()
        with Image.open(io.BytesIO(data), formats=formats) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise FrnError(
                    f"{where}: has {width} x {height} pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels. "
                    "Scale it down first."
                )
            with alone if width * height > LARGE else contextlib.nullcontext():
                if wish.draft is not None:
                    image.draft(None, (wish.draft, wish.draft))
                elif len(data) + _memory(image, width * height) > MAX_MEMORY:
                    image.draft(None, (width // COARSE, height // COARSE))
                if (needed := len(data) + _memory(image, width * height)) > MAX_MEMORY:
                    raise FrnError(
                        f"{where}: decoding {width} x {height} pixels of this kind of {image.format} takes "
                        f"{needed >> 20} MiB; the limit is {MAX_MEMORY >> 20} MiB. Scale it down first."
                    )
                image.load()
                orientation = _orientation(image)
                if orientation in SIDEWAYS:
                    width, height = height, width
                return wish.finish(image, orientation), (width, height)
    except (FrnError, MustBeAloneError):
        raise
    except UnidentifiedImageError as error:
        raise FrnError(f"{where}: is not an image in a known format ({', '.join(FORMATS)}, HEIC)") from error
    except Image.DecompressionBombError as error:
        raise FrnError(f"{where}: has too many pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels") from error
    except MemoryError as error:
        raise FrnError(
            f"{where}: there is not enough memory to decode it. Free some, or scale it down first."
        ) from error
    except Exception as error:  # Pillow's decoders raise whatever a damaged file makes them stumble over
        raise FrnError(f"{where}: is damaged and cannot be decoded ({one_line(error)})") from error


class MustBeAloneError(Exception):
    """Raised where a large image may not be decoded beside others, by what stands for `alone` there."""


def _memory(image: Image.Image, pixels: int) -> int:
    """Bytes that decoding takes at most, from the header; `pixels` are the file's, whatever it is decoded to."""
    decoded = 4 * image.width * image.height
    if image.format in ("WEBP", "AVIF", heif.FORMAT):  # the picture, the decoder's planes, and copies between them
        return 4 * decoded
    if image.info.get("progressive"):  # all coefficients of the JPEG, of two bytes each
        sampling = [(across, down) for _, across, down, _ in getattr(image, "layer", ())]
        densest = max(across for across, _ in sampling) * max(down for _, down in sampling)
        return decoded + 2 * pixels * sum(across * down for across, down in sampling) // densest
    if image.format == "TIFF" and image.info.get("compression") != "raw":  # a strip at a time, or a row of tiles
        tags = getattr(image, "tag_v2", {})
        return decoded + 4 * image.width * min(tags.get(TILE_ROWS) or tags.get(STRIP_ROWS, pixels), image.height)
    return decoded


def _orientation(image: Image.Image) -> int:
    """EXIF's; 1, upright, where the metadata is damaged: the pixels are sound all the same."""
    try:
        return image.getexif().get(ORIENTATION, 1)
    except Exception:  # Pillow's parsers raise whatever they stumble over
        return 1


def upright_rgb(image: Image.Image) -> Image.Image:
    """All of an image of any mode, as its EXIF tag turns it."""
    if (orientation := _orientation(image)) in UPRIGHT:
        image = image.transpose(UPRIGHT[orientation])
    return image if image.mode == "RGB" else to_rgb(image)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationTransform:
    """Resize, then crop the centre: what the network sees of an image outside training (SM, Pre-processing)."""

    size: int
    """Side of the centre crop, in pixels."""
    resize: int | None = None
    """Length to resize to first. None: an image of `size` x `size` passes untouched, any other is resized to
    `size` * 92 / 84, the paper's ratio."""
    square: bool = False
    """Resize both sides to `resize` (the aspect changes) instead of the shorter one."""

    def __post_init__(self) -> None:
        for side in (self.size, self.length):
            if not isinstance(side, int) or not 8 <= side <= MAX_SIDE:
                raise FrnError(f"an image cannot be resized to {self.resize} and cropped to {self.size} pixels")
        if self.length < self.size:
            raise FrnError(f"an image is resized to {self.resize} and cropped to {self.size}: the crop must fit")

    @property
    def length(self) -> int:
        """What an image that is not left alone is resized to."""
        return self.resize or round(self.size * 92 / 84)

    def seen(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """The part of an image of this (width, height) that the crop shows: its box in shares of width and height."""
        width, height = size
        if self.resize is None and (width, height) == (self.size, self.size):
            return 0.0, 0.0, 1.0, 1.0
        left, top, right, bottom = aspect_box(size)
        across, down = right - left, bottom - top
        scaled = (self.length, self.length) if self.square else shorter_side_to((across, down), self.length)
        x, y = (centre_offset(side, self.size) / side for side in scaled)
        wide, high = (self.size / side for side in scaled)
        return (
            (left + x * across) / width,
            (top + y * down) / height,
            (left + (x + wide) * across) / width,
            (top + (y + high) * down) / height,
        )

    def __call__(self, image: Image.Image, orientation: int = 1) -> Pixels:
        """The crop (size, size, 3) uint8 of an image of any mode; `orientation` is EXIF's, where it is not upright."""
        convert = converter(image)
        across, down = image.size if orientation not in SIDEWAYS else image.size[::-1]
        if self.resize is None and (across, down) == (self.size, self.size):
            return np.asarray(convert(upright(image, (0, 0, across, down), orientation)))
        box = aspect_box((across, down))
        across, down = box[2] - box[0], box[3] - box[1]
        length = self.length
        width, height = (length, length) if self.square else shorter_side_to((across, down), length)
        if image.mode == "RGB" and orientation not in UPRIGHT and box == (0, 0, *image.size):
            scaled = resize_bytes(image, width, height)
        else:  # the same by strips, without a second picture of full size
            narrow = Image.new("RGB", (width, down))
            for strip in strips(box):
                part = convert(upright(image, strip, orientation))
                narrow.paste(part.resize((width, part.height), Image.Resampling.BILINEAR), (0, strip[1] - box[1]))
            scaled = narrow.resize((width, height), Image.Resampling.BILINEAR)
        left, top = centre_offset(width, self.size), centre_offset(height, self.size)
        return np.asarray(scaled.crop((left, top, left + self.size, top + self.size)))


def resize_bytes(image: Image.Image, width: int, height: int) -> Image.Image:
    """Antialiased bilinear resize, rows first, rounded to bytes after each pass.

    One call to Pillow would do, but from version 13 on it takes the columns first for some sizes, which moves a quarter
    of the pixels by one grey level. This is the order of every version before, and of ONNX's Resize.
    """
    return image.resize((width, image.height), Image.Resampling.BILINEAR).resize(
        (width, height), Image.Resampling.BILINEAR
    )


def shorter_side_to(size: tuple[int, int], length: int) -> tuple[int, int]:
    """Size (width, height) whose shorter side is `length`, the longer one truncated as torchvision does."""
    width, height = size
    if width <= height:
        return length, int(length * height / width)
    return int(length * width / height), length


def centre_offset(length: int, crop: int) -> int:
    """Start of a centre crop; half a pixel rounds to even, as torchvision does."""
    return round((length - crop) / 2)


def aspect_box(size: tuple[int, int]) -> Box:
    """The longer side cropped about its centre so that the ratio is at most `MAX_ASPECT`."""
    width, height = size
    across, down = min(width, MAX_ASPECT * height), min(height, MAX_ASPECT * width)
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def limit_shorter_side(image: Image.Image, length: int) -> Pixels:
    """Return the pixels (h, w, 3), scaled down where the shorter side is longer than `length`."""
    box = aspect_box(image.size)
    image = image if box == (0, 0, *image.size) else image.crop(box)
    if min(image.size) > length:
        image = image.resize(shorter_side_to(image.size, length), Image.Resampling.BILINEAR)
    return np.asarray(image)
