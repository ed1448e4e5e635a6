"""Pixels of prepared images: decoded as they are stored, without the upright turn that `frn.images` gives photos.

Boxes of CUB and Aircraft are in stored coordinates, and the authors' scripts do not look at EXIF tags either. Pillow's
crop rounds each side to a whole pixel, and black is beyond the border.
"""

import io
from collections.abc import Callable

from PIL import Image

from frn.colour import to_rgb
from frn.errors import FrnError, one_line
from frn.images import decode_stored, resize_bytes

PNG_MODES = frozenset({"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"})
PNG_START = b"\x89PNG\r\n\x1a\n"
PNG_END = b"IEND\xaeB`\x82"
"""Last bytes of a whole PNG file."""


def to_png(data: bytes, where: str, convert: Callable[[Image.Image], Image.Image]) -> bytes:
    """Decode, convert, and encode as PNG. FrnError as `frn.images.decode_stored`, or if there is nothing to encode."""
    image = decode_stored(data, where)
    try:
        return encode_png(convert(image))
    except (OSError, ValueError, TypeError, SystemError) as error:  # a box beside the image, a mode without conversion
        raise FrnError(f"{where}: cannot be converted ({one_line(error)}). Fetch it again.") from error


def encode_png(image: Image.Image) -> bytes:
    """PNG in the image's own mode where PNG has it, without metadata: an EXIF tag would turn it on reading."""
    image = image if image.mode in PNG_MODES else to_rgb(image)
    image.info = {key: value for key, value in image.info.items() if key == "transparency"}
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def squash(side: int, image: Image.Image) -> Image.Image:
    """RGB, resized to `side` x `side` whatever the aspect was."""
    return resize_bytes(image.convert("RGB"), side, side)
