"""From feature maps to one vector per image, as the methods that compare vectors need it."""

import torch
from torch import Tensor


def vectors(maps: Tensor, *, pooled: bool) -> Tensor:
    """Average (..., r, d) over the locations, or put all of them in a row, (..., r * d); in float32 at least."""
    maps = maps.to(torch.promote_types(maps.dtype, torch.float32))
    return maps.mean(-2) if pooled else maps.flatten(-2)


def squared_distances(queries: Tensor, prototypes: Tensor) -> Tensor:
    """Squared Euclidean distances (q, way) of queries (q, n) from prototypes (way, n)."""
    return torch.cdist(queries, prototypes, compute_mode="donot_use_mm_for_euclid_dist").square()
