"""Conversion of feature maps to one vector per image, for methods that compare vectors."""

import torch
from torch import Tensor


def vectors(maps: Tensor, *, pooled: bool) -> Tensor:
    """Average (..., r, d) over the locations, or flatten to (..., r * d)."""
    return maps.mean(-2) if pooled else maps.flatten(-2)


def squared_distances(queries: Tensor, prototypes: Tensor) -> Tensor:
    """Return squared Euclidean distances (q, way) of queries (q, n) from prototypes (way, n)."""
    if torch._C._are_functorch_transforms_active():  # cdist's gradient is wrong under vmap, thus also under jacrev
        return (queries[:, None] - prototypes).square().sum(-1)
    return torch.cdist(queries, prototypes, compute_mode="donot_use_mm_for_euclid_dist").square()
