"""Evaluation geometry: resize and centre crop, identical byte for byte to that used in training the networks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.images.colour import SIDEWAYS, UPRIGHT, Box, converter, is_plain, strips, upright

MAX_SIDE = 1024  # largest side of a crop for a network, in pixels
MAX_ASPECT = 20  # largest aspect ratio; longer strips are cropped about their centre before resizing

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationTransform:
    """Resize and centre crop: the network's view of an image outside training (supplement, Pre-processing)."""

    size: int  # side of the centre crop, in pixels
    resize: int | None = None
    """Length to resize to first.

    None: an image of `size` x `size` is unchanged; any other is resized to `size` * 92 / 84, the paper's ratio.
    """
    square: bool = False  # whether to resize both sides to `resize` (changing the aspect) instead of the shorter one

    def __post_init__(self) -> None:
        if not 8 <= self.size <= MAX_SIDE or not self.size <= self.length <= MAX_SIDE:
            raise FrnError(
                f"an image cannot be resized to {self.resize} and cropped to {self.size} pixels: the crop must not be "
                f"larger, and both must have 8 to {MAX_SIDE} pixels"
            )

    @property
    def length(self) -> int:
        """Length that images are resized to."""
        return self.resize or round(self.size * 92 / 84)

    def whole(self) -> "EvaluationTransform":
        """Return a transform to 3/2 of the size that squeezes the whole image into a square, for `--tta views`."""
        side = self.size * 3 // 2
        return EvaluationTransform(size=side, resize=side, square=True)

    def _geometry(self, size: tuple[int, int]) -> tuple[Box, tuple[int, int]]:
        """Return the part of an image of this (width, height) that is resized, and its new (width, height)."""
        left, top, right, bottom = box = aspect_box(size)
        if self.resize is None and size == (self.size, self.size):
            return box, size
        part = right - left, bottom - top
        return box, (self.length, self.length) if self.square else shorter_side_to(part, self.length)

    def seen(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return the crop's box in an image of this (width, height), in fractions of width and height."""
        (left, top, right, bottom), scaled = self._geometry(size)
        across, down = right - left, bottom - top
        x, y = (centre_offset(side, self.size) / side for side in scaled)
        wide, high = (self.size / side for side in scaled)
        return (
            (left + x * across) / size[0],
            (top + y * down) / size[1],
            (left + (x + wide) * across) / size[0],
            (top + (y + high) * down) / size[1],
        )

    def __call__(self, image: Image.Image, orientation: int = 1) -> Pixels:
        """Return the crop (size, size, 3) uint8 of an image of any mode; `orientation` is EXIF's, if not upright."""
        convert = converter(image)
        box, (width, height) = self._geometry(image.size if orientation not in SIDEWAYS else image.size[::-1])
        if is_plain(convert) and orientation not in UPRIGHT and box == (0, 0, *image.size):
            scaled = image if image.size == (width, height) else resize_bytes(image, width, height)
        else:  # the same in strips, without a second full-size image
            narrow = Image.new("RGB", (width, box[3] - box[1]))
            for strip in strips(box):
                part = convert(upright(image, strip, orientation))
                narrow.paste(part.resize((width, part.height), Image.Resampling.BILINEAR), (0, strip[1] - box[1]))
            scaled = narrow.resize((width, height), Image.Resampling.BILINEAR)
        left, top = centre_offset(width, self.size), centre_offset(height, self.size)
        return np.asarray(scaled.crop((left, top, left + self.size, top + self.size)))


def resize_bytes(image: Image.Image, width: int, height: int) -> Image.Image:
    """Resize with antialiased bilinear weights, rows first, rounding to bytes after each pass.

    From version 13 on, a single Pillow call resizes columns first for some sizes, which changes a quarter of the pixels
    by one grey level. This is the order in earlier versions, and in ONNX's Resize.
    """
    return image.resize((width, image.height), Image.Resampling.BILINEAR).resize(
        (width, height), Image.Resampling.BILINEAR
    )


def shorter_side_to(size: tuple[int, int], length: int) -> tuple[int, int]:
    """Return the size (width, height) with shorter side `length`; the longer one is truncated as in torchvision."""
    width, height = size
    if width <= height:
        return length, int(length * height / width)
    return int(length * width / height), length


def centre_offset(length: int, crop: int) -> int:
    """Return the start of a centre crop; half a pixel rounds to even, as in torchvision."""
    return round((length - crop) / 2)


def aspect_box(size: tuple[int, int]) -> Box:
    """Return a centred box with the longer side cropped to an aspect ratio of at most `MAX_ASPECT`."""
    width, height = size
    across, down = min(width, MAX_ASPECT * height), min(height, MAX_ASPECT * width)
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def limit_shorter_side(image: Image.Image, length: int) -> Pixels:
    """Return the pixels (h, w, 3), scaled down if the shorter side is longer than `length`."""
    box = aspect_box(image.size)
    image = image if box == (0, 0, *image.size) else image.crop(box)
    if min(image.size) > length:
        image = image.resize(shorter_side_to(image.size, length), Image.Resampling.BILINEAR)
    return np.asarray(image)
