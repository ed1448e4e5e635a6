"""Pixels of prepared images: decoded as they are stored, without the upright turn that `frn.images` gives photos.

Boxes of CUB and Aircraft are in stored coordinates, and the authors' scripts do not look at EXIF tags either. Pillow's
crop rounds each side to a whole pixel, and black is beyond the border.
"""

import io

from PIL import Image, UnidentifiedImageError

from frn.errors import FrnError
from frn.images import FORMATS, MAX_PIXELS, resize_bytes, to_rgb

PNG_MODES = frozenset({"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"})
PNG_START = b"\x89PNG\r\n\x1a\n"
PNG_END = b"IEND\xaeB`\x82"
"""Last bytes of a whole PNG file."""


def decode_stored(data: bytes, where: str) -> Image.Image:
    """Decode an image in its own mode. FrnError if it is too large, of an unknown format, or broken."""
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise FrnError(f"{where}: has {image.width} x {image.height} pixels; the limit is {MAX_PIXELS:,}")
        image.load()
    except UnidentifiedImageError as error:
        raise FrnError(f"{where}: is not an image in a known format ({', '.join(FORMATS)})") from error
    except (OSError, SyntaxError, EOFError, IndexError, TypeError, MemoryError, Image.DecompressionBombError) as error:
        raise FrnError(f"{where}: is damaged and cannot be decoded ({error}). Fetch it again.") from error
    return image


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
