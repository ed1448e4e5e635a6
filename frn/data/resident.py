"""A split's pixels in the memory of the device that trains: an episode's images are gathered there."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frn.data.concat import ConcatImages
from frn.data.pixel_cache import StoredImages

SHARE = 0.25
"""Fraction of the device's free memory that pixels may take: the rest is for the network's maps."""
PIECE = 1 << 26
"""Bytes that are copied at once."""


class ResidentImages:
    """The images of one or several data sets, each pixel three bytes on the device, in one row."""

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
        """As `StoredImages.gather`, with a canvas on the device; nothing waits for it."""
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
    """The images in the memory of a GPU that has room for them, else where they are."""
    size = sum(len(part.pixels) for part in images.parts)
    if device.type == "cuda" and size <= SHARE * torch.cuda.mem_get_info(device)[0]:
        return ResidentImages(images, device)
    return images
