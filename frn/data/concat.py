"""Several data sets for one training run, each under its own name; no episode mixes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.data.folders import Broken
from frn.data.pixel_cache import StoredImages
from frn.images.transforms import Pixels


@dataclass(frozen=True, slots=True)
class ConcatImages:
    """Concatenated images of several data sets."""

    parts: tuple[StoredImages, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of readable images per class."""
        return tuple(size for part in self.parts for size in part.sizes)

    @property
    def broken(self) -> tuple[Broken, ...]:
        """Files skipped in `sizes`."""
        return tuple(entry for part in self.parts for entry in part.broken)

    def gather(self, indices: Sequence[int] | NDArray[np.int64]) -> tuple[Pixels, NDArray[np.int64]]:
        """Copy images into one canvas, as `StoredImages.gather` does."""
        chosen = np.asarray(indices)
        ends = np.cumsum([len(part) for part in self.parts])
        origin = np.searchsorted(ends, chosen, side="right")
        gathered = {
            int(i): self.parts[i].gather(chosen[origin == i] - (ends[i] - len(self.parts[i]))) for i in set(origin)
        }
        extents = np.empty((len(chosen), 2), dtype=np.int64)
        for i, (_, found) in gathered.items():
            extents[origin == i] = found
        canvas = np.zeros((len(chosen), *extents.max(axis=0), 3), dtype=np.uint8)
        for i, (pixels, _) in gathered.items():
            canvas[origin == i, : pixels.shape[1], : pixels.shape[2]] = pixels
        return canvas, extents
