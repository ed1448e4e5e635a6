"""The only door to image files: limits, formats, orientation and colour modes, and the evaluation geometry.

Free of torch. Everything that leaves here is RGB, upright, and of a bounded size.
"""

import contextlib
import io
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from frn.errors import FrnError

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")

MAX_BYTES = 256 * 1024 * 1024
MAX_PIXELS = 120_000_000
MAX_ASPECT = 20
"""A longer strip is cropped to this ratio about its centre before it is resized, or the result would explode."""

LARGE = 24_000_000
"""Pixels from which on an image is decoded alone."""
STRIP = 1 << 20
"""Pixels that are converted together."""
DRAFT = 2
"""A glance decodes at least so much finer than the crop needs."""
ORIENTATION = 0x0112
SIDEWAYS = (5, 6, 7, 8)
"""Values of the EXIF tag that swap width and height."""

T = TypeVar("T")
Pixels = NDArray[np.uint8]

_LARGE = threading.RLock()


def open_image(path: Path) -> Image.Image:
    """Decode one image file: first frame, upright by its EXIF tag, RGB, transparency on white.

    Args:
        path: a regular file in one of `FORMATS`, of at most `MAX_BYTES` and `MAX_PIXELS`.

    Raises:
        FrnError: if the file is missing, no regular file, too large, of an unknown format, or broken.
    """
    return decode(read_file(path), path)


def read_file(path: Path) -> bytes:
    """Read the bytes of an image file; never of a pipe or device, which could have no end.

    Raises:
        FrnError: if the file is missing, no regular file, empty, or larger than `MAX_BYTES`.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FrnError(f"{path}: is not a regular file")
        if status.st_size == 0:
            raise FrnError(f"{path}: is empty (0 bytes)")
        if status.st_size > MAX_BYTES:
            raise FrnError(f"{path}: has {status.st_size / 2**20:.0f} MiB; the limit is {MAX_BYTES >> 20} MiB")
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        if isinstance(error, FrnError):
            raise
        raise FrnError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def decode(data: bytes, where: Path) -> Image.Image:
    """Decode the bytes of an image file, as `open_image` does; `where` is what to call it in a message.

    Raises:
        FrnError: if it has more than `MAX_PIXELS`, is of an unknown format, or broken.
    """
    return _decode(data, where, None, lambda image: image)[0]


def see(data: bytes, where: Path, transform: "EvaluationTransform") -> Pixels:
    """Decode and crop, large images one after the other whatever thread asks: two of them may not fit into memory.

    Raises:
        FrnError: as `decode`.
    """
    return _decode(data, where, None, transform)[0]


def glance(data: bytes, where: Path, transform: "EvaluationTransform") -> tuple[Pixels, tuple[int, int]]:
    """As `see`, for the eye alone: a JPEG is decoded only as finely as the crop needs, in a third of the time.

    Returns:
        The crop, and the (width, height) of the whole image, upright.

    Raises:
        FrnError: as `decode`.
    """
    return _decode(data, where, DRAFT * (transform.resize or transform.size), transform)


def _decode(
    data: bytes, where: Path, draft: int | None, finish: Callable[[Image.Image], T]
) -> tuple[T, tuple[int, int]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own bomb warning: the limit below is ours
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                width, height = image.size
                if width * height > MAX_PIXELS:
                    raise FrnError(
                        f"{where}: has {width} x {height} pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels. "
                        "Scale it down first."
                    )
                with _LARGE if width * height > LARGE else contextlib.nullcontext():
                    if draft is not None:
                        image.draft(None, (draft, draft))
                    image.load()
                    if image.getexif().get(ORIENTATION) in SIDEWAYS:
                        width, height = height, width
                    ImageOps.exif_transpose(image, in_place=True)
                    return finish(image if image.mode == "RGB" else to_rgb(image)), (width, height)
    except FrnError:
        raise
    except UnidentifiedImageError as error:
        raise FrnError(f"{where}: is not an image in a known format ({', '.join(FORMATS)})") from error
    except Image.DecompressionBombError as error:
        raise FrnError(f"{where}: has too many pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels") from error
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, MemoryError) as error:
        # Pillow's decoders raise all of these on damaged files.
        raise FrnError(f"{where}: is damaged and cannot be decoded ({error})") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode to RGB: deep grey rescaled, transparency on white."""
    if image.mode == "RGB":
        return image.copy()
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):  # deep grey: Pillow would clip instead of rescale
        highest = max(float(np.asarray(strip).max(initial=0)) for _, strip in _strips(image))
        return _by_strips(image, lambda strip: _shallow(strip, 65535.0 if highest > 255 else 255.0))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        return _by_strips(image, _on_white)
    return image.convert("RGB")


def _shallow(image: Image.Image, top: float) -> Image.Image:
    deep = np.asarray(image, dtype=np.float64)
    return Image.fromarray((deep.clip(0, top) * (255 / top)).round().astype(np.uint8)).convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, layer).convert("RGB")


def _by_strips(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Convert to RGB a few rows at a time: what it takes on the way stays small."""
    result = Image.new("RGB", image.size)
    for top, strip in _strips(image):
        result.paste(convert(strip), (0, top))
    return result


def _strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    rows = max(1, STRIP // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


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
        if self.size < 8 or (self.resize is not None and self.resize < self.size):
            raise FrnError(f"an image is resized to {self.resize} and cropped to {self.size}: the crop must fit")

    def __call__(self, image: Image.Image) -> Pixels:
        """Return the crop as (size, size, 3) uint8."""
        if self.resize is None and image.size == (self.size, self.size):
            return np.asarray(image)
        image = limit_aspect(image)
        resize = self.resize or round(self.size * 92 / 84)
        width, height = (resize, resize) if self.square else shorter_side_to(image.size, resize)
        image = resize_bytes(image, width, height)
        left, top = centre_offset(width, self.size), centre_offset(height, self.size)
        return np.asarray(image.crop((left, top, left + self.size, top + self.size)))


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


def limit_aspect(image: Image.Image) -> Image.Image:
    """Crop the longer side about its centre so that the ratio is at most `MAX_ASPECT`."""
    width, height = image.size
    across, down = min(width, MAX_ASPECT * height), min(height, MAX_ASPECT * width)
    left, top = (width - across) // 2, (height - down) // 2
    return image if (across, down) == image.size else image.crop((left, top, left + across, top + down))


def limit_shorter_side(image: Image.Image, length: int) -> Pixels:
    """Return the pixels (h, w, 3), scaled down where the shorter side is longer than `length`."""
    image = limit_aspect(image)
    if min(image.size) > length:
        image = image.resize(shorter_side_to(image.size, length), Image.Resampling.BILINEAR)
    return np.asarray(image)
