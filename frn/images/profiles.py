"""ICC profiles: colours as a file describes them, to sRGB by littleCMS."""

import functools
import io
from collections.abc import Callable

import numpy as np
from PIL import Image

Convert = Callable[[Image.Image], Image.Image]
CHANNELS = {"RGB": 3, "L": 1, "CMYK": 4}
"""Modes whose colours a profile can describe."""
MAX_BYTES = 8 << 20
"""Bytes of a profile; those of presses have two million."""
SAME = 2
"""Grey levels by which the colours of a profile that counts as sRGB may differ from sRGB."""
STEPS = 9


def srgb_converter(profile: object, mode: str) -> Convert:
    """Return what turns an image of a mode of `CHANNELS` into sRGB.

    A profile that is missing, damaged or of another colour space counts as sRGB, as viewers take it.
    """
    found = _transform(profile, mode) if isinstance(profile, bytes) and 0 < len(profile) <= MAX_BYTES else None
    return found or _plain


def is_plain(convert: Convert) -> bool:
    """Return whether a converter of `srgb_converter` leaves an RGB image as it is."""
    return convert is _plain


def _plain(image: Image.Image) -> Image.Image:
    return image if image.mode == "RGB" else image.convert("RGB")


@functools.lru_cache(maxsize=32)
def _transform(profile: bytes, mode: str) -> Convert | None:
    """Return the transform; None if it would change nothing that can be seen, or cannot be made."""
    from PIL import ImageCms

    try:
        described = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(described, ImageCms.createProfile("sRGB"), mode, "RGB")
        probe = _probe(mode)
        changed = np.asarray(transform.apply(probe), dtype=int) - np.asarray(probe.convert("RGB"), dtype=int)
    except (OSError, ValueError, TypeError, ImageCms.PyCMSError):  # what littleCMS makes of a damaged profile
        return None
    return None if np.abs(changed).max() <= SAME else transform.apply


def _probe(mode: str) -> Image.Image:
    """Colours all over the space, in one row."""
    levels = np.linspace(0, 255, STEPS).round().astype(np.uint8)
    grid = np.stack(np.meshgrid(*[levels] * CHANNELS[mode]), axis=-1).reshape(1, -1, CHANNELS[mode])
    return Image.frombytes(mode, (grid.shape[1], 1), grid.tobytes())
