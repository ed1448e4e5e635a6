"""Pixels of prepared images, decoded as stored, without the EXIF rotation that `frn.images` applies.

Boxes of CUB and Aircraft are in stored coordinates, and the authors' scripts also ignore EXIF tags. Pillow's crop
rounds each side to a whole pixel and fills the area outside the image with black.
"""

import io
from collections.abc import Callable

from PIL import Image

from frn.errors import FrnError, shorten
from frn.images.opening import decode_stored

MAX_PIXELS = 64_000_000
"""Pixel limit for a written image, because in-process encoding cannot be stopped."""
PNG_END = b"IEND\xaeB`\x82"
"""Last bytes of a complete PNG file."""


def to_png(data: bytes, where: str, convert: Callable[[Image.Image], Image.Image]) -> bytes:
    """Decode, convert, and encode as PNG. Raises FrnError as `decode_stored` does, or if conversion fails."""
    image = decode_stored(data, where)
    if image.width * image.height > MAX_PIXELS:
        raise FrnError(
            f"{where}: is {image.width} x {image.height} pixels; the limit for an image in a data set is "
            f"{MAX_PIXELS // 1_000_000} megapixels. Scale it down."
        )
    try:
        return encode_png(convert(image))
    # the box is outside the image, or the mode cannot be converted
    except (OSError, ValueError, TypeError, SystemError) as error:
        raise FrnError(f"{where}: cannot be converted ({shorten(error)}). Download it again.") from error


def encode_png(image: Image.Image) -> bytes:
    """Encode a grey or RGB image as PNG, with its colour profile."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def as_stored(data: bytes) -> bytes:
    """Return a JPEG file of the same length whose EXIF data no longer rotate it, as the authors' loader reads it."""
    start = data.find(EXIF, 0, MAX_EXIF_START) if data.startswith(b"\xff\xd8") else -1
    return data if start < 0 else data[:start] + bytes(len(EXIF)) + data[start + len(EXIF) :]


EXIF = b"Exif\0\0"
"""Beginning of the EXIF segment; without it, decoders skip the segment."""
MAX_EXIF_START = 1 << 16
"""The EXIF segment is near the start of the file; some photos have a JFIF header before it."""
