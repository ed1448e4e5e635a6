"""Pixels of a split in the memory of the training device, from which episodes gather their images."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frn.data.pixel_cache import ConcatImages, StoredImages

PIECE = 1 << 26
"""Bytes copied at a time."""


class ResidentImages:
    """Images of one or several data sets on the device, three bytes per pixel, in one flat tensor."""

    def __init__(self, images: StoredImages | ConcatImages, device: torch.device) -> None:
        """Copy all pixels."""
        self.heights = np.concatenate([part.heights for part in images.parts])
        self.widths = np.concatenate([part.widths for part in images.parts])
        lengths = self.heights * self.widths
        self.starts = np.cumsum(lengths) - lengths
        row = torch.empty(sum(len(part.pixels) for part in images.parts), dtype=torch.uint8, device=device)
        end = 0
        for part in images.parts:
            for start in range(0, len(part.pixels), PIECE):
                piece = torch.tensor(part.pixels[start : start + PIECE])
                row[end : end + len(piece)] = piece.to(device)
                end += len(piece)
        self.pixels = row.view(-1, 3)

    def gather(self, indices: Sequence[int] | NDArray[np.int64]) -> tuple[Tensor, NDArray[np.int64]]:
        """Copy images to a canvas on the device, as `StoredImages.gather` does, without synchronising."""
        chosen = np.asarray(indices)
        extents = np.stack([self.heights[chosen], self.widths[chosen]], axis=1)
        h, w = extents.max(axis=0).tolist()
        device = self.pixels.device
        start, height, width = (
            torch.from_numpy(column).to(device, non_blocking=True)[:, None, None]
            for column in (self.starts[chosen], extents[:, 0].copy(), extents[:, 1].copy())
        )
        y, x = torch.arange(h, device=device)[:, None], torch.arange(w, device=device)
        inside = (y < height) & (x < width)
        at = torch.where(inside, start + y * width + x, 0)
        return self.pixels[at] * inside[..., None], extents


def where_they_fit(
    images: StoredImages | ConcatImages, device: torch.device
) -> StoredImages | ConcatImages | ResidentImages:
    """Move the images to the memory of a GPU if they fit; otherwise return them unchanged."""
    size = sum(len(part.pixels) for part in images.parts)
    # Fraction of the device's free memory that pixels may take; the rest is for feature maps
    if device.type == "cuda" and size <= 0.25 * torch.cuda.mem_get_info(device)[0]:
        return ResidentImages(images, device)
    return images
