"""Samples of more than eight bits, and the key of transparency that a file writes beside them.

Cameras and microscopes put 10 to 14 bits into files of 16. A file's own tags say how many; without them the largest
value, rounded up to a whole number of bits, does.
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

DEEP = frozenset({"I;16", "I;16B", "I;16L", "I", "F"})
"""Modes of more than eight bits, all of them grey."""
SCALES = {"L;2": 85, "L;4": 17}
"""By raw mode, from a grey level as it is written to one of eight bits."""
BITS_PER_SAMPLE, MAX_SAMPLE_VALUE = 258, 281
"""Tags of TIFF and EXIF."""
WHITE_IS_ZERO = 262
WHITE = 65535
EXACT = 24_000_000
"""Pixels up to which both bytes of a colour are read; above, there is not the memory for it."""


class ShallowDataWarning(FrnWarning):
    """A file of 16 bits holds fewer, so its values were scaled."""


def white_level(image: Image.Image, most: float) -> float:
    """The value of white in a deep image whose largest value is `most`."""
    if (named := _named_white(image)) and named >= most:
        return named
    if most <= 1 and image.mode == "F":
        return 1.0
    white = float(max(255, 2 ** int(most).bit_length() - 1))
    if 255 < white < WHITE:
        say(f"an image uses {int(most).bit_length()} of 16 bits: values of such images are scaled to that range")
    return white


@functools.cache
def say(message: str) -> None:
    """Warn, once in a program."""
    warnings.warn(message, ShallowDataWarning, stacklevel=2)


def _named_white(image: Image.Image) -> float | None:
    """What the file's tags say of it."""
    with contextlib.suppress(Exception):  # Pillow's parsers raise whatever they stumble over
        tags: Any = getattr(image, "tag_v2", None) or image.getexif()
        if most := tags.get(MAX_SAMPLE_VALUE):
            return float(most[0] if isinstance(most, tuple) else most)
        bits = tags.get(BITS_PER_SAMPLE)
        bits = bits[0] if isinstance(bits, tuple) else bits
        if bits and 8 < bits < 16:
            return float(2**bits - 1)
    return None


def raw_mode(image: Image.Image) -> str:
    """How an image that is not loaded yet lies in its file, as Pillow calls it; empty if it does not say."""
    with contextlib.suppress(AttributeError, IndexError, TypeError):
        arguments: Any = image.tile[0][3]  # type: ignore[attr-defined]
        return str(arguments if isinstance(arguments, str) else arguments[0])
    return ""


def match_key(image: Image.Image, raw: str) -> None:
    """Bring the transparent colour of a PNG, which has the file's depth, to that of its pixels."""
    key = image.info.get("transparency")
    if raw in SCALES and isinstance(key, int):
        image.info["transparency"] = key * SCALES[raw]
    elif raw.startswith("RGB;16") and isinstance(key, tuple):
        image.info["transparency"] = tuple(value >> 8 for value in key)


def rescale(image: Image.Image, raw: str, data: bytes) -> Image.Image:
    """Return a loaded image of 16 bits a colour, of which Pillow keeps the upper byte, with its values scaled.

    Only if they do not reach the upper half: of each band the lower byte is read from `data` as well.
    """
    if not raw.startswith(("RGB;16", "RGBA;16", "RGBX;16")) or image.mode not in ("RGB", "RGBA"):
        return image
    bands = image.split()
    if max(int(np.asarray(band).max()) for band in bands[:3]) > 127:
        return image
    low = _lower_bytes(data, raw).split() if image.width * image.height <= EXACT else [None] * 3
    deep = [_joined(upper, lower) for upper, lower in zip(bands[:3], low[:3], strict=True)]
    white = white_level(image, max(float(band.max(initial=0)) for band in deep))
    scaled = Image.merge(image.mode, [*(shallow(band, white) for band in deep), *bands[3:]])
    scaled.info = image.info
    return scaled


def shallow(values: NDArray[Any], white: float) -> Image.Image:
    """Eight bits of deep grey values (h, w)."""
    return Image.fromarray((values.clip(0, white) * (255 / white)).round().astype(np.uint8))


def _joined(upper: Image.Image, lower: Image.Image | None) -> NDArray[np.uint16]:
    joined: NDArray[np.uint16] = np.asarray(upper, np.uint16) << np.uint16(8)
    return joined if lower is None else joined | np.asarray(lower, np.uint16)


def _lower_bytes(data: bytes, raw: str) -> Image.Image:
    """Decode again, in the other order of bytes."""
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
