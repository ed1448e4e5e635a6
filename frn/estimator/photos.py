"""Photos in Python: accepted types, and their conversion to upright sRGB. This module does not need torch.

- a file by name (`~` is the home folder), its bytes, or an open binary file;
- a Pillow image;
- pixels as an array or a torch tensor: (h, w), (h, w, 1), (h, w, 3) or (h, w, 4), or with the channels first if the
  last axis cannot be channels. If the shape allows both orders, a tensor is read as channels first. `uint8` from 0 to
  255, or floats from 0 to 1. The fourth channel is opacity, on a white background.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.features.feature_cache import content_key
from frn.images.boxes import path_of_url
from frn.images.decoding import upright_rgb
from frn.images.opening import decode, read_file

Photo: TypeAlias = str | Path | bytes | IO[bytes] | Image.Image | NDArray[Any]
"""Accepted types of a photo. Tensors are also accepted, but not listed, because torch is not imported."""

NO_FILE = Path()  # path of a photo that was not given as a file name
CHANNELS = (1, 3, 4)


def path_of(photo: Photo) -> Path:
    """Return the photo's file, or `NO_FILE`."""
    return expanded(photo).absolute() if isinstance(photo, str | Path) else NO_FILE


def check_flag(name: str, value: Any) -> bool:
    """Return a flag. Raises FrnError if it is not a boolean: the text "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise FrnError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def expanded(path: str | Path) -> Path:
    """Return a path or `file:` URL, with `~` replaced by the home folder. A file named `~x.jpg` keeps its name.

    Raises FrnError for a file on another machine, and for other types.
    """
    if not isinstance(path, str | Path):
        raise FrnError(f"a file is named by text or a Path, not {path!r}")
    named = path_of_url(path) if isinstance(path, str) else path
    return Path(os.path.expanduser(named))  # noqa: PTH111  # pathlib's own raises RuntimeError


def list_photos(photos: Iterable[Photo]) -> list[Photo]:
    """Return the photos of a list, a column of a table, or an array (n, h, w, 3). Raises FrnError as `several` does."""
    return list(several(photos))


def several(photos: Iterable[Photo]) -> Iterable[Photo]:
    """Return the photos of a list, a column of a table, or an array (n, h, w, 3).

    Raises FrnError for a single photo, which would be split into letters or rows of pixels.
    """
    shape: tuple[int, ...] = getattr(photos, "shape", ())
    one_array = len(shape) == 3 and shape[-1] == 3
    if isinstance(photos, str | Path | bytes | Image.Image) or hasattr(photos, "read") or one_array:
        raise FrnError("photos must be a list: put a single photo in brackets")
    if isinstance(photos, set | frozenset | Mapping) or not isinstance(photos, Iterable):
        raise FrnError(f"photos must be a list, whose order labels and answers follow, not {type(photos).__name__}")
    if isinstance(photos, np.ndarray) and photos.ndim == 2 and photos.shape[1] == 1 and photos.dtype.kind in "OUS":
        column: list[Photo] = photos[:, 0].tolist()
        return column
    return photos


def open_photo(photo: Photo) -> tuple[str, Image.Image]:
    """Return a photo's content key and its pixels.

    Raises FrnError if a file cannot be read, or an array is not an image.
    """
    if isinstance(photo, str | Path):
        path = path_of(photo)
        data = read_file(path)
        return content_key(data), decode(data, path)
    if isinstance(photo, bytes) or hasattr(photo, "read"):
        data, where = (photo, "bytes") if isinstance(photo, bytes) else (photo.read(), getattr(photo, "name", "bytes"))
        if not data:
            raise FrnError(f"{where}: is empty, or was already read to its end")
        return content_key(data), decode(data, Path(str(where)))
    image = upright_rgb(photo) if isinstance(photo, Image.Image) else _picture(photo)
    return content_key(b"%dx%d" % image.size + image.tobytes()), image


def _picture(array: Any) -> Image.Image:
    """Return pixels as an RGB image. Raises FrnError if the pixels are invalid."""
    is_tensor = hasattr(array, "detach")
    pixels = np.asarray(array.detach().cpu() if is_tensor else array)
    shape = pixels.shape
    if pixels.ndim == 3 and shape[0] in CHANNELS and (is_tensor or shape[2] not in CHANNELS):
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in CHANNELS or not pixels.size:
        raise FrnError(f"an array of pixels must be (h, w), (h, w, 3) or (3, h, w), not {pixels.dtype} {shape}")
    if pixels.dtype.kind == "f":
        if not (pixels.min() >= 0 and pixels.max() <= 1):
            raise FrnError(
                f"pixels of {pixels.dtype} must be between 0 and 1, not {pixels.min():g} and {pixels.max():g}"
            )
        pixels = (pixels * 255).round().astype(np.uint8)
    if pixels.dtype != np.uint8:
        raise FrnError(f"pixels must be uint8 from 0 to 255 or floats from 0 to 1, not {pixels.dtype} {shape}")
    return upright_rgb(Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)))
