"""ICC profiles: conversion of a file's colours to sRGB by littleCMS, to the same bytes as libvips and sharp."""

import functools
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

Convert = Callable[[Image.Image], Image.Image]
CHANNELS = {"RGB": 3, "L": 1, "CMYK": 4}
"""Modes whose colours a profile can describe."""
MAX_BYTES = 8 << 20
"""Size limit of a profile; profiles of printing presses are up to 2 MB."""
CONTRAST = 64
"""Minimum range of grey levels to which a profile maps all colours; a damaged one may map them all to black."""
SAME = 2
"""Largest difference in grey levels between sRGB and a profile that counts as sRGB."""
STEPS = 9
SRGB = Path(__file__).with_name("srgb.icc")
"""The sRGB profile of libvips (Compact ICC Profiles, CC0); littleCMS's own rounds differently."""


def srgb_converter(profile: object, mode: str) -> Convert:
    """Return the conversion of an image with a mode of `CHANNELS` to sRGB.

    If the profile is missing, damaged or for another colour space, sRGB is assumed, as in viewers.
    """
    found = _transform(profile, mode) if isinstance(profile, bytes) and 0 < len(profile) <= MAX_BYTES else None
    return found or _plain


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
        transform = ImageCms.buildTransform(described, ImageCms.ImageCmsProfile(io.BytesIO(_srgb())), mode, "RGB")
        probe = _probe(mode)
        converted = np.asarray(transform.apply(probe), dtype=int)
        changed = converted - np.asarray(probe.convert("RGB"), dtype=int)
    except (OSError, ValueError, TypeError, ImageCms.PyCMSError):  # errors of littleCMS for a damaged profile
        return None
    return None if np.abs(changed).max() <= SAME or np.ptp(converted) < CONTRAST else transform.apply


@functools.cache
def _srgb() -> bytes:
    return SRGB.read_bytes()


def _probe(mode: str) -> Image.Image:
    """Return one row of colours spread over the whole space."""
    levels = np.linspace(0, 255, STEPS).round().astype(np.uint8)
    grid = np.stack(np.meshgrid(*[levels] * CHANNELS[mode]), axis=-1).reshape(1, -1, CHANNELS[mode])
    return Image.frombytes(mode, (grid.shape[1], 1), grid.tobytes())
