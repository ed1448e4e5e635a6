"""Near copies: re-saved or resized photos, found by a perceptual hash.

The hash contains the signs of the lowest frequencies of a crop's brightness, and the mean colours of its quarters,
which distinguish objects that differ only in colour.

Shape letters: n photos, m others.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.images.transforms import Pixels

SIDE, FREQUENCIES = 32, 8
BYTES = 20
"""Length of a hash."""
MOST_BITS, MOST_LEVELS = 8, 36
"""Largest differences between near copies, in signs and in colours.

Photos saved again or resized to between a quarter and twice the size differ by at most 5 bits and 4 levels. Of 1.6
million pairs of original photos, ten count as copies, most of them the same photo.
"""
BLOCK = 256

_COSINES = np.cos(np.pi * (2 * np.arange(SIDE) + 1) * np.arange(FREQUENCIES)[:, None] / (2 * SIDE))


def look(crop: Pixels) -> bytes:
    """Return the hash of a crop (S, S, 3)."""
    image = Image.fromarray(crop)
    grey = np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float64)
    strengths = (_COSINES @ grey @ _COSINES.T).ravel()
    strengths[0] = 0  # the mean brightness
    signs = np.packbits(strengths > np.median(strengths))
    return signs.tobytes() + image.resize((2, 2), Image.Resampling.BOX).tobytes()


def are_near(looks: Sequence[bytes], others: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return how near copies are (n, m), from `MOST_BITS` + 1 for equal hashes down to 1; 0 for other photos."""
    (signs, colours), (other_signs, other_colours) = map(_parts, (looks, others))
    bits = np.bitwise_count(signs[:, None] ^ other_signs)
    nearness = np.where(bits <= MOST_BITS, MOST_BITS + 1 - bits, 0).astype(np.uint8)
    rows, columns = np.nonzero(nearness)
    levels = np.abs(colours[rows] - other_colours[columns]).max(-1, initial=0)
    nearness[rows, columns] *= levels <= MOST_LEVELS
    return nearness


def nearest_copies(looks: Sequence[bytes], others: Sequence[bytes] | None = None) -> list[int | None]:
    """Return the nearest copy of each photo among `others` or, by default, the photos themselves; None without one."""
    found: list[int | None] = []
    for first in range(0, len(looks), BLOCK):
        nearness = are_near(looks[first : first + BLOCK], looks if others is None else others)
        if others is None:
            np.fill_diagonal(nearness[:, first:], 0)
        found += [int(row.argmax()) if row.any() else None for row in nearness]
    return found


def _parts(looks: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.int16]]:
    values = np.frombuffer(b"".join(looks), np.uint8).reshape(len(looks), BYTES)
    return np.ascontiguousarray(values[:, :8]).view(np.uint64)[:, 0], values[:, 8:].astype(np.int16)
