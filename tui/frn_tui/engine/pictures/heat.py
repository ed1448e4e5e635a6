"""An error map over the part of a photo that is the model's input."""

import numpy as np
from numpy.typing import NDArray

from frn.images.ramp import RAMP
from frn.images.transforms import Pixels
from frn_tui.client.protocol import Heat
from frn_tui.terminal.rendered_picture import Box

Floats = NDArray[np.float64]

COVER = 0.8
"""Opacity of the largest error over the photo; explained parts stay visible."""
OUTSIDE = 0.3
"""Brightness outside the model's input beside a bare map."""


def paint(pixels: Pixels, heat: Heat, seen: Box, *, bare: bool) -> Pixels:
    """Draw an error map's colours over a photo.

    Args:
        pixels: photo, (h, w, 3).
        heat: error map; `smooth` blends between its locations instead of drawing them as blocks.
        seen: part of the photo that the map covers, in fractions of its sides; may reach beyond it.
        bare: draw only the colours; otherwise the photo is more visible for smaller errors.
    """
    (left, top, right, bottom), smooth = seen, heat["smooth"]
    errors, span = np.asarray(heat["map"], dtype=np.float64) - heat["low"], heat["high"] - heat["low"]
    errors = np.clip(errors / span, 0, 1) if span > 0 else np.zeros(errors.shape)
    across = _weights((_centres(pixels.shape[1]) - left) / (right - left), errors.shape[1], smooth=smooth)
    down = _weights((_centres(pixels.shape[0]) - top) / (bottom - top), errors.shape[0], smooth=smooth)
    level = down @ errors @ across.T
    steps = np.linspace(0, 1, len(RAMP))
    colours = np.stack([np.interp(level, steps, channel) for channel in zip(*RAMP, strict=True)], 2)
    inside = np.outer(down.any(1), across.any(1))[..., None]
    cover = 1.0 if bare else COVER * level[..., None]
    rest = OUTSIDE * pixels if bare else pixels
    return np.where(inside, (1 - cover) * pixels + cover * colours, rest).round().astype(np.uint8)


def _centres(length: int) -> Floats:
    return (np.arange(length) + 0.5) / length


def _weights(places: Floats, cells: int, *, smooth: bool) -> Floats:
    """Return the weight of each cell of a map at each place, (places, cells); zero outside of [0, 1].

    With `smooth`, weights blend between the centres of two cells, and at a centre its cell has all the weight.
    """
    inside = (places >= 0) & (places < 1)
    at = np.clip(places * cells - 0.5 if smooth else np.floor(places * cells), 0, cells - 1)
    distance = np.clip(np.abs(at[:, None] - np.arange(cells)), 0, 1)
    return inside[:, None] * (1 - distance * distance * (3 - 2 * distance))
