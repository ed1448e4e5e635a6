"""The only door to image files: limits, formats, orientation and colour modes, and the evaluation geometry.

Free of torch. Everything that leaves here is RGB, upright, and of a bounded size.
"""

import stat
import warnings
from dataclasses import dataclass
from pathlib import Path

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

Pixels = NDArray[np.uint8]


def open_image(path: Path) -> Image.Image:
    """Decode one image file: first frame, upright by its EXIF tag, RGB, transparency on white.

    Args:
        path: a regular file in one of `FORMATS`, of at most `MAX_BYTES` and `MAX_PIXELS`.

    Raises:
        FrnError: if the file is missing, no regular file, too large, of an unknown format, or broken.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise FrnError(f"{path}: cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise FrnError(f"{path}: is not a regular file")
    if status.st_size == 0:
        raise FrnError(f"{path}: is empty (0 bytes)")
    if status.st_size > MAX_BYTES:
        raise FrnError(f"{path}: has {status.st_size / 2**20:.0f} MiB; the limit is {MAX_BYTES >> 20} MiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own bomb warning: the limit below is ours
            with Image.open(path, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise FrnError(
                        f"{path}: has {image.width} x {image.height} pixels; the limit is "
                        f"{MAX_PIXELS // 1_000_000} megapixels. Scale it down first."
                    )
                image.load()
                upright = ImageOps.exif_transpose(image)
                return _to_rgb(upright)
    except FrnError:
        raise
    except UnidentifiedImageError as error:
        raise FrnError(f"{path}: is not an image in a known format ({', '.join(FORMATS)})") from error
    except PermissionError as error:
        raise FrnError(f"{path}: cannot be read ({error.strerror})") from error
    except Image.DecompressionBombError as error:
        raise FrnError(f"{path}: has too many pixels; the limit is {MAX_PIXELS // 1_000_000} megapixels") from error
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, MemoryError) as error:
        # Pillow's decoders raise all of these on damaged files.
        raise FrnError(f"{path}: is damaged and cannot be decoded ({error})") from error


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image.copy()
    if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):  # deep grey: Pillow would clip instead of rescale
        deep = np.asarray(image, dtype=np.float64)
        top = 65535.0 if deep.max(initial=0) > 255 else 255.0
        return Image.fromarray((deep.clip(0, top) * (255 / top)).round().astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


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
