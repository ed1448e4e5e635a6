"""Conversion to upright sRGB, a few rows at a time, without a second full-size image.

littleCMS converts the colours of files with an ICC profile, to the same bytes as libvips and sharp.
"""

import functools
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from frn.images.depth import DEEP, shallow, white_level
from frn.images.png_colours import profile_of

STRIP = 1 << 18  # pixels converted and scaled at a time
SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap width and height
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
Box = tuple[int, int, int, int]  # left, top, right, bottom
Convert = Callable[[Image.Image], Image.Image]
CHANNELS = {"RGB": 3, "L": 1, "CMYK": 4}  # modes whose colours a profile can describe
STEPS = 9
SRGB = Path(__file__).with_name("srgb.icc")
"""The sRGB profile of libvips (Compact ICC Profiles, CC0); littleCMS's own rounds differently."""


def to_rgb(image: Image.Image, box: Box | None = None, orientation: int = 1, factor: int = 1) -> Image.Image:
    """Convert an image of any mode, or a box of it in the upright image, to RGB: see `converter`.

    Parts are converted in strips, without a second copy in the image's own mode. A `factor` above 1 reduces a box by
    that factor: each pixel is the mean of `factor` x `factor`, so that a second copy of a large photo is never needed.
    """
    convert = converter(image)
    factor = 1 if box is None else factor
    if box is None or (factor == 1 and box == (0, 0, *image.size) and orientation not in UPRIGHT):
        box, orientation = (0, 0, *image.size), 1
        if is_plain(convert):
            return image
    if factor == 1 and is_plain(convert):
        return upright(image, box, orientation)
    left, top, right, bottom = box
    result = Image.new("RGB", (-(-(right - left) // factor), -(-(bottom - top) // factor)))
    for strip in strips(box, factor):
        part = convert(upright(image, strip, orientation))
        result.paste(part.reduce(factor) if factor > 1 else part, (0, (strip[1] - top) // factor))
    return result


def converter(image: Image.Image) -> Convert:
    """Return a function that converts any part of an image to sRGB.

    High-bit-depth grey values are rescaled, colours are converted by the ICC profile or the chunks of a PNG, and
    transparency becomes white.
    """
    see_through = image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info
    deep = image.mode in DEEP
    grey = deep or image.mode in ("L", "LA", "La", "1")
    colours = "CMYK" if image.mode == "CMYK" else "L" if grey else "RGB"
    to_srgb = srgb_converter(profile_of(image, colours), colours)
    if image.mode == "RGB" and not see_through:
        return to_srgb
    white, key = 0.0, image.info.get("transparency")
    if deep:
        parts = (np.asarray(image.crop(box)) for box in strips((0, 0, *image.size)))
        white = white_level(image, max(float(part.max(initial=0)) for part in parts))

    def convert(part: Image.Image) -> Image.Image:
        values = np.asarray(part) if deep else None
        if values is not None:
            part = shallow(values, white)
        if not see_through:
            return to_srgb(part.convert(colours))
        layer = part.convert("RGBA")
        painted = to_srgb(layer.getchannel("R") if grey else layer.convert("RGB"))
        mask = layer.getchannel("A") if values is None else Image.fromarray(values != key)
        result = Image.new("RGB", part.size, "white")
        result.paste(painted, mask=mask)
        return result

    return convert


def shrunk(image: Image.Image, orientation: int, longest: int) -> Image.Image:
    """Return the image upright in RGB, with its longer side at most `longest`, without a second full-size image."""
    share = min(longest / max(image.size), 1.0)
    width, height = (max(1, round(share * side)) for side in image.size)
    convert, narrow = converter(image), Image.new("RGB", (width, image.height))
    for strip in strips((0, 0, *image.size)):
        part = convert(image if strip == (0, 0, *image.size) else image.crop(strip))
        narrow.paste(part.resize((width, part.height), Image.Resampling.BOX), (0, strip[1]))
    small = narrow.resize((width, height), Image.Resampling.BOX)
    return small if orientation not in UPRIGHT else small.transpose(UPRIGHT[orientation])


def strips(box: Box, multiple: int = 1) -> Iterator[Box]:
    """Yield strips of a few rows, a multiple of `multiple` but for the last, so that converting needs little memory."""
    left, top, right, bottom = box
    rows = multiple * max(1, STRIP // max(right - left, 1) // multiple)
    for first in range(top, bottom, rows):
        yield left, first, right, min(first + rows, bottom)


def upright(image: Image.Image, box: Box, orientation: int) -> Image.Image:
    """Return a part of an image, given by its box in the upright image."""
    if orientation not in UPRIGHT:
        return image.crop(box)
    left, top, right, bottom = box
    width, height = image.size if orientation not in SIDEWAYS else image.size[::-1]
    if orientation in (2, 3, 6, 7):  # EXIF orientations in which the upright columns are reversed in the file
        left, right = width - right, width - left
    if orientation in (3, 4, 7, 8):  # EXIF orientations in which the upright rows are reversed in the file
        top, bottom = height - bottom, height - top
    place = (left, top, right, bottom) if orientation not in SIDEWAYS else (top, left, bottom, right)
    return image.crop(place).transpose(UPRIGHT[orientation])


def srgb_converter(profile: object, mode: str) -> Convert:
    """Return the conversion of an image with a mode of `CHANNELS` to sRGB.

    If the profile is missing, damaged or for another colour space, sRGB is assumed, as in viewers.
    """
    # Size limit of a profile; profiles of printing presses are up to 2 MB
    transform = _transform(profile, mode) if isinstance(profile, bytes) and 0 < len(profile) <= (8 << 20) else None
    return transform or _plain


def is_plain(convert: Convert) -> bool:
    """Return whether a converter of `srgb_converter` leaves an RGB image unchanged."""
    return convert is _plain


def _plain(image: Image.Image) -> Image.Image:
    return image if image.mode == "RGB" else image.convert("RGB")


@functools.lru_cache(maxsize=32)
def _transform(profile: bytes, mode: str) -> Convert | None:
    """Return the transform; None if it would change nothing visible, or cannot be built."""
    from PIL import ImageCms

    try:
        described = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(described, ImageCms.ImageCmsProfile(str(SRGB)), mode, "RGB")
        probe = _probe(mode)
        converted = np.asarray(transform.apply(probe), dtype=int)
        changed = converted - np.asarray(probe.convert("RGB"), dtype=int)
    except (OSError, ValueError, TypeError, ImageCms.PyCMSError):  # errors of littleCMS for a damaged profile
        return None
    # Minimum range of grey levels to which a profile maps all colours; a damaged one may map them all to black
    # Largest difference in grey levels between sRGB and a profile that counts as sRGB
    return None if np.abs(changed).max() <= 2 or np.ptp(converted) < 64 else transform.apply


def _probe(mode: str) -> Image.Image:
    """Return one row of colours spread over the whole space."""
    levels = np.linspace(0, 255, STEPS).round().astype(np.uint8)
    grid = np.stack(np.meshgrid(*[levels] * CHANNELS[mode]), axis=-1).reshape(1, -1, CHANNELS[mode])
    return Image.frombytes(mode, (grid.shape[1], 1), grid.tobytes())
