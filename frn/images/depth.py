"""Samples of more than eight bits, and the transparent colour that a file stores with them.

Cameras and microscopes write 10 to 14 bits into 16-bit files. The file's tags give the number of bits; without them it
follows from the largest value.
"""

import contextlib
import functools
import io
import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from frn.errors import FrnWarning

DEEP = frozenset({"I;16", "I;16B", "I;16L", "I", "F"})  # modes of more than eight bits, all grey
SCALES = {"L;2": 85, "L;4": 17}  # factor from a stored grey level to eight bits, by raw mode
BITS_PER_SAMPLE, MAX_SAMPLE_VALUE = 258, 281  # TIFF and EXIF tags
WHITE = 65535


class ShallowDataWarning(FrnWarning):
    """Warning that a 16-bit file uses fewer bits, so its values were scaled, or that its HDR curve was not applied."""


def white_level(image: Image.Image, most: float) -> float:
    """Return the value of white in an image of more than eight bits whose largest value is `most`."""
    if (named := _named_white(image)) and named >= most:
        return named
    if most <= 1 and image.mode == "F":
        return 1.0
    white = float(max(255, 2 ** int(most).bit_length() - 1))
    if 255 < white < WHITE:
        say(
            f"an image uses only {int(most).bit_length()} of its 16 bits: the values of such images are scaled to the "
            "full range"
        )
    return white


@functools.cache
def say(message: str) -> None:
    """Warn once per process."""
    warnings.warn(message, ShallowDataWarning, stacklevel=2)


def _named_white(image: Image.Image) -> float | None:
    with contextlib.suppress(Exception):  # Pillow's parsers may raise anything
        tags: Any = getattr(image, "tag_v2", None) or image.getexif()
        if most := tags.get(MAX_SAMPLE_VALUE):
            return float(most[0] if isinstance(most, tuple) else most)
        bits = tags.get(BITS_PER_SAMPLE)
        bits = bits[0] if isinstance(bits, tuple) else bits
        if bits and 8 < bits < 16:
            return float(2**bits - 1)
    return None


def raw_mode(image: Image.Image) -> str:
    """Return Pillow's raw mode of an image that is not loaded yet, or an empty string if it is unknown."""
    with contextlib.suppress(AttributeError, IndexError, TypeError):
        arguments: Any = image.tile[0][3]  # type: ignore[attr-defined]
        return str(arguments if isinstance(arguments, str) else arguments[0])
    return ""


def match_key(image: Image.Image, raw: str) -> None:
    """Convert a PNG's transparent colour from the file's depth to that of its pixels."""
    key = image.info.get("transparency")
    if raw in SCALES and isinstance(key, int):
        image.info["transparency"] = key * SCALES[raw]
    elif raw.startswith("RGB;16") and isinstance(key, tuple):
        image.info["transparency"] = tuple(value >> 8 for value in key)


def rescale(image: Image.Image, raw: str, data: bytes) -> Image.Image:
    """Scale the values of a loaded image with 16 bits per colour, of which Pillow keeps the upper byte.

    The image changes only if its values do not reach the upper half; each band's lower byte is then read from `data`.
    """
    if not raw.startswith(("RGB;16", "RGBA;16", "RGBX;16")) or image.mode not in ("RGB", "RGBA"):
        return image
    if max(most for _, most in image.getextrema()[:3]) > 127:  # type: ignore[misc]
        return image
    bands = image.split()
    # Maximum pixels for which both bytes of a colour are read; larger images would need too much memory
    low = _lower_bytes(data, raw).split() if image.width * image.height <= 24_000_000 else [None] * 3
    deep = [_joined(upper, lower) for upper, lower in zip(bands[:3], low[:3], strict=True)]
    white = white_level(image, max(float(band.max(initial=0)) for band in deep))
    scaled = Image.merge(image.mode, [*(shallow(band, white) for band in deep), *bands[3:]])
    scaled.info = image.info
    return scaled


def shallow(values: NDArray[Any], white: float) -> Image.Image:
    """Convert high-bit-depth grey values (h, w) to eight bits."""
    return Image.fromarray((values.clip(0, white) * (255 / white)).round().astype(np.uint8))


def _joined(upper: Image.Image, lower: Image.Image | None) -> NDArray[np.uint16]:
    joined: NDArray[np.uint16] = np.asarray(upper, np.uint16) << np.uint16(8)
    return joined if lower is None else joined | np.asarray(lower, np.uint16)


def _lower_bytes(data: bytes, raw: str) -> Image.Image:
    """Decode again in the opposite byte order."""
    native = "L" if sys.byteorder == "little" else "B"
    order = "B" if raw[-1].replace("N", native) == "L" else "L"
    with Image.open(io.BytesIO(data)) as image:
        assert isinstance(image, ImageFile.ImageFile)
        image.tile = [
            tile._replace(args=(raw[:-1] + order, *tile.args[1:]) if isinstance(tile.args, tuple) else raw[:-1] + order)
            for tile in image.tile
        ]
        image.load()
        return image.copy()
