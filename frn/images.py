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
MAX_MEMORY = 600 << 20
"""Bytes that a file and what it is decoded into may take together."""
MAX_ASPECT = 20
"""A longer strip is cropped to this ratio about its centre before it is resized, or the result would explode."""

LARGE = 24_000_000
"""Pixels from which on an image is decoded alone."""
STRIP = 1 << 18
"""Pixels that are converted and scaled together."""
DRAFT = 2
"""A preview decodes at least so much finer than the crop needs."""
COARSE = 4
"""A progressive JPEG that would take more than `MAX_MEMORY` is decoded so much smaller."""
ORIENTATION, STRIP_ROWS, TILE_ROWS = 0x0112, 278, 323
"""Tags of EXIF and TIFF."""
SIDEWAYS = (5, 6, 7, 8)
"""Values of the EXIF tag that swap width and height."""
MIRRORED = (2, 3, 6, 7)
"""Those whose upright columns run against the file's rows or columns."""
FLIPPED = (3, 4, 7, 8)
"""Those whose upright rows do."""
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
Box = tuple[int, int, int, int]
"""Left, top, right, bottom."""

T = TypeVar("T")
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

    FrnError if it has more than `MAX_PIXELS`, is of an unknown format, or broken.
    """
    return _decode(data, where, None, _whole)[0]


def decode_crop(data: bytes, where: Path, transform: "EvaluationTransform") -> Pixels:
    """Decode and crop. Large images are decoded one at a time, whatever thread calls: two may not fit into memory.

    The same pixels as of `decode`, without a second picture of full size on the way. FrnError as `decode`.
    """
    return _decode(data, where, None, transform)[0]


def decode_preview(data: bytes, where: Path, transform: "EvaluationTransform") -> tuple[Pixels, tuple[int, int]]:
    """As `decode_crop`, for display only: a JPEG is decoded only as finely as the crop needs, in a third of the time.

    Returns the crop, and the (width, height) of the whole image, upright. FrnError as `decode`.
    """
    return _decode(data, where, DRAFT * (transform.resize or transform.size), transform)


def _decode(
    data: bytes, where: Path, draft: int | None, finish: Callable[[Image.Image, int], T]
) -> tuple[T, tuple[int, int]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own bomb warning: the limits below are ours
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
                    elif len(data) + _memory(image, width * height) > MAX_MEMORY:
                        image.draft(None, (width // COARSE, height // COARSE))
                    if (needed := len(data) + _memory(image, width * height)) > MAX_MEMORY:
                        raise FrnError(
                            f"{where}: decoding {width} x {height} pixels of this kind of {image.format} takes "
                            f"{needed >> 20} MiB; the limit is {MAX_MEMORY >> 20} MiB. Scale it down first."
                        )
                    image.load()
                    orientation = image.getexif().get(ORIENTATION, 1)
                    if orientation in SIDEWAYS:
                        width, height = height, width
                    return finish(image, orientation), (width, height)
    except FrnError:
        raise
    except UnidentifiedImageError as error:
        raise FrnError(f"{where}: is not an image in a known format ({', '.join(FORMATS)})") from error
    except Image.DecompressionBombError as error:
        raise FrnError(f"{where}: has too many pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels") from error
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, MemoryError) as error:
        # Pillow's decoders raise all of these on damaged files.
        raise FrnError(f"{where}: is damaged and cannot be decoded ({error})") from error


def _memory(image: Image.Image, pixels: int) -> int:
    """Bytes that decoding takes at most, from the header; `pixels` are the file's, whatever it is decoded to."""
    decoded = 4 * image.width * image.height
    if image.format == "WEBP":  # the picture, two canvases of the decoder, and a copy between them
        return 4 * decoded
    if image.info.get("progressive"):  # all coefficients of the JPEG, of two bytes each
        sampling = [(across, down) for _, across, down, _ in getattr(image, "layer", ())]
        densest = max(across for across, _ in sampling) * max(down for _, down in sampling)
        return decoded + 2 * pixels * sum(across * down for across, down in sampling) // densest
    if image.format == "TIFF" and image.info.get("compression") != "raw":  # a strip at a time, or a row of tiles
        tags = getattr(image, "tag_v2", {})
        return decoded + 4 * image.width * min(tags.get(TILE_ROWS) or tags.get(STRIP_ROWS, pixels), image.height)
    return decoded


def _whole(image: Image.Image, _: int) -> Image.Image:
    ImageOps.exif_transpose(image, in_place=True)
    return image if image.mode == "RGB" else to_rgb(image)


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode to RGB: deep grey rescaled, transparency on white."""
    convert, result = converter(image), Image.new("RGB", image.size)
    for box in _strips((0, 0, *image.size)):
        result.paste(convert(image.crop(box)), box)
    return result


def converter(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """What makes RGB of any part of an image."""
    if image.mode == "RGB":
        return lambda part: part
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):  # deep grey: Pillow would clip instead of rescale
        parts = (image.crop(box) for box in _strips((0, 0, *image.size)))
        top = 65535.0 if max(float(np.asarray(part).max(initial=0)) for part in parts) > 255 else 255.0
        return lambda part: _shallow(part, top)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        return _on_white
    return lambda part: part.convert("RGB")


def _shallow(image: Image.Image, top: float) -> Image.Image:
    deep = np.asarray(image, dtype=np.float64)
    return Image.fromarray((deep.clip(0, top) * (255 / top)).round().astype(np.uint8)).convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, layer).convert("RGB")


def _strips(box: Box) -> Iterator[Box]:
    """A few rows at a time: what it takes to convert them stays small."""
    left, top, right, bottom = box
    rows = max(1, STRIP // max(right - left, 1))
    for first in range(top, bottom, rows):
        yield left, first, right, min(first + rows, bottom)


def _upright(image: Image.Image, box: Box, orientation: int) -> Image.Image:
    """A part of an image by its place in the upright one."""
    if orientation not in UPRIGHT:
        return image.crop(box)
    left, top, right, bottom = box
    width, height = image.size if orientation not in SIDEWAYS else image.size[::-1]
    if orientation in MIRRORED:
        left, right = width - right, width - left
    if orientation in FLIPPED:
        top, bottom = height - bottom, height - top
    place = (left, top, right, bottom) if orientation not in SIDEWAYS else (top, left, bottom, right)
    return image.crop(place).transpose(UPRIGHT[orientation])


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

    @property
    def length(self) -> int:
        """What an image that is not left alone is resized to."""
        return self.resize or round(self.size * 92 / 84)

    def __call__(self, image: Image.Image, orientation: int = 1) -> Pixels:
        """The crop (size, size, 3) uint8 of an image of any mode; `orientation` is EXIF's, where it is not upright."""
        convert = converter(image)
        across, down = image.size if orientation not in SIDEWAYS else image.size[::-1]
        if self.resize is None and (across, down) == (self.size, self.size):
            return np.asarray(convert(_upright(image, (0, 0, across, down), orientation)))
        box = aspect_box((across, down))
        across, down = box[2] - box[0], box[3] - box[1]
        length = self.length
        width, height = (length, length) if self.square else shorter_side_to((across, down), length)
        if image.mode == "RGB" and orientation not in UPRIGHT and box == (0, 0, *image.size):
            scaled = resize_bytes(image, width, height)
        else:  # the same by strips, without a second picture of full size
            narrow = Image.new("RGB", (width, down))
            for strip in _strips(box):
                part = convert(_upright(image, strip, orientation))
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
