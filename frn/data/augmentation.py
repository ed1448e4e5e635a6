"""Random numbers for the training augmentation; `frn.data.batch_augmentation` applies them to pixels.

The module does not need torch. The paper's augmentation is a crop, colour jitter and a flip, in the order of the
authors' code.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Draw:
    """Random numbers for a batch of b images."""

    boxes: Array  # Crops in pixels of the image (b, 4): top, left, height, width. Parts outside the image are black.
    flips: NDArray[np.bool_]  # whether each image is mirrored, (b,)
    order: NDArray[np.int64]  # order in which brightness (0), contrast (1) and saturation (2) change, (b, 3)
    factors: Array  # factors of brightness, contrast and saturation, (b, 3)


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """The paper's training transform (supplement, Pre-processing)."""

    size: int  # side of the result, in pixels
    crop: Literal["resized", "padded"]
    """"resized": a random part of the image, resized; "padded": zero padding, then a crop of the same scale."""
    padding: int = 0  # padding on every side in pixels, for "padded"
    scale: tuple[float, float] = (0.08, 1.0)  # fraction of the area that a "resized" crop covers
    jitter: float = 0.4  # range of brightness, contrast and saturation factors: 1 +- jitter

    def __post_init__(self) -> None:
        if self.size < 8 or self.padding < 0 or not 0 <= self.jitter < 1 or not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise FrnError(f"invalid augmentation settings: {self}")

    def draw(self, extents: NDArray[np.int64], generator: np.random.Generator) -> Draw:
        """Draw random numbers for images with the given (height, width), (b, 2)."""
        b = len(extents)
        draw_boxes = self._resized_boxes if self.crop == "resized" else self._padded_boxes
        return Draw(
            boxes=draw_boxes(extents, generator),
            flips=generator.random(b) < 0.5,
            order=np.argsort(generator.random((b, 3)), axis=1),
            factors=generator.uniform(1 - self.jitter, 1 + self.jitter, (b, 3)),
        )

    def _padded_boxes(self, extents: NDArray[np.int64], generator: np.random.Generator) -> Array:
        room = extents + 2 * self.padding - self.size
        if (room < 0).any():
            raise FrnError(
                f"an image of {extents[room.min(axis=1).argmin()].tolist()} pixels is too small for a "
                f"{self.size}-pixel crop with padding {self.padding}. Use a preset with resized crops."
            )
        corner = np.floor(generator.random((len(extents), 2)) * (room + 1)) - self.padding
        return np.concatenate([corner, np.full((len(extents), 2), float(self.size))], axis=1)

    def _resized_boxes(self, extents: NDArray[np.int64], generator: np.random.Generator) -> Array:
        """Draw boxes as torchvision's RandomResizedCrop does: ten tries for area and aspect, then the central crop."""
        b = len(extents)
        height, width = extents[:, :1].astype(float), extents[:, 1:].astype(float)
        area = height * width * generator.uniform(*self.scale, (b, 10))
        aspect = np.exp(generator.uniform(np.log(3 / 4), np.log(4 / 3), (b, 10)))
        w, h = np.round(np.sqrt(area * aspect)), np.round(np.sqrt(area / aspect))
        fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
        first, rows = fits.argmax(axis=1), np.arange(b)
        h, w = h[rows, first], w[rows, first]
        corner = np.floor(generator.random((b, 2)) * (np.stack([height[:, 0] - h, width[:, 0] - w], axis=1) + 1))
        boxes = np.concatenate([corner, np.stack([h, w], axis=1)], axis=1)
        for row in np.flatnonzero(~fits.any(axis=1)):
            full_h, full_w = extents[row]
            h_max, w_max = min(full_h, round(full_w / (3 / 4))), min(full_w, round(full_h * (4 / 3)))
            boxes[row] = (full_h - h_max) // 2, (full_w - w_max) // 2, h_max, w_max
        return boxes
