"""What a photo may be in Python: a file, a Pillow image or pixels. Free of torch."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
from PIL import Image

from frn.images.decoding import upright_rgb
from frn.images.opening import decode, read_file
from frn.images.transforms import Pixels
from frn.inference.feature_cache import content_key

Photo: TypeAlias = str | Path | Image.Image | Pixels
"""A file, a Pillow image, or pixels (h, w, 3) or (h, w) in uint8."""

NO_FILE = Path()
"""Stands for a photo that was given as pixels."""


def path_of(photo: Photo) -> Path:
    """The photo's file, or `NO_FILE`."""
    return Path(photo).absolute() if isinstance(photo, str | Path) else NO_FILE


def list_photos(photos: Iterable[Photo]) -> list[Photo]:
    """The photos of a list, a column of a table, or an array (n, h, w, 3).

    ValueError if it is one photo: it would be taken apart into letters or rows of pixels.
    """
    one_array = isinstance(photos, np.ndarray) and photos.ndim == 3 and photos.shape[2] == 3
    if isinstance(photos, str | Path | Image.Image) or one_array:
        raise ValueError("photos is a list: put a single one in brackets")
    return list(photos)


def open_photo(photo: Photo) -> tuple[str, Image.Image]:
    """A photo's content key and its pixels.

    FrnError if a file cannot be read; ValueError if an array is no picture.
    """
    if isinstance(photo, str | Path):
        data = read_file(Path(photo))
        return content_key(data), decode(data, Path(photo))
    if isinstance(photo, Image.Image):
        image = upright_rgb(photo)
    else:
        pixels = np.asarray(photo)
        right_shape = pixels.ndim in (2, 3) and pixels.shape[2:] in ((), (3,)) and pixels.size
        if pixels.dtype != np.uint8 or not right_shape:
            raise ValueError(f"an array of pixels is uint8 (h, w, 3) or (h, w), not {pixels.dtype} {pixels.shape}")
        image = Image.fromarray(pixels).convert("RGB")
    return content_key(b"%dx%d" % image.size + image.tobytes()), image
