"""DeepBDC (Xie et al., CVPR 2022): images are compared by Brownian distance covariance, a closed form.

The formulas follow the authors' code (Fei-Long121/DeepBDC, Meta DeepBDC). An image is the matrix of distances between
its channels, each seen as a vector over the locations, centred by rows and columns. The code has a layer that first
reduces the channels; it is omitted here, as by default for the 640 channels of ResNet-12. The code's logits have no
temperature.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import squared_distances

FLOOR = 1e-5
"""Added to scaled squared distances (the authors' value): keeps the slope of their root finite if two are equal."""


class DeepBDCHead(Head):
    """Scores a query by the distance from its matrix to a class's mean matrix; at 1 shot by their product."""

    unequal = "repeat"
    triangle: Tensor
    warm_up = 200

    def __init__(self, d: int) -> None:
        """Compare maps of d channels."""
        super().__init__()
        rows, columns = torch.triu_indices(d, d)
        self.register_buffer("triangle", d * rows + columns, persistent=False)
        self.log_scale = nn.Parameter(torch.tensor(math.log(0.5)))
        """Scale of squared distances per location; the authors' `temperature` is this minus log r."""

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = brownian(support, self.log_scale)[..., self.triangle].mean(1)  # way, d (d + 1) / 2
        embedded = brownian(query, self.log_scale)[..., self.triangle]
        one_shot = torch.ones_like(support[0, :, 0, 0]).sum() == 1  # counted, because exporters may fix sizes
        return torch.where(one_shot, embedded @ prototypes.mT, -squared_distances(embedded, prototypes))

    def start_on(self, episodes: Sequence[Tensor], shot: int) -> None:
        """Choose the scale with the least loss. With one that is too large, the first steps spoil network and scale."""
        best = torch.inf, self.log_scale.item()
        for log_scale in np.arange(-12, 2, 0.5).tolist():
            self.log_scale.data.fill_(log_scale)
            best = min(best, (sum(_loss(self, maps[:, :shot], maps[:, shot:]) for maps in episodes), log_scale))
        self.log_scale.data.fill_(best[1])

    def divergence_reason(self) -> str:
        """Return the reason why training cannot recover, or an empty string."""
        if (scale := self.log_scale.exp()) < FLOOR:
            return f"the scale of distances is {scale.item():.0e}: all images look alike"
        return ""


def _loss(head: Head, support: Tensor, query: Tensor) -> float:
    labels = torch.arange(len(query), device=query.device).repeat_interleave(query.shape[1])
    return F.cross_entropy(head(support, query.flatten(0, 1)), labels).item()


def brownian(maps: Tensor, log_scale: Tensor) -> Tensor:
    """Return the centred distance matrix of the channels, row by row: (..., r, d) to (..., d * d)."""
    products = maps.mT @ maps / maps.shape[-2]
    # From the products, so that a channel's distance to itself is exactly 0: the root would magnify its rounding by 160
    squares = (products * torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)).sum(-1)
    squared = (squares[..., None, :] + squares[..., None] - 2 * products).clamp(min=0)
    distances = (log_scale.exp() * squared + FLOOR).sqrt()
    mean = distances.mean(-1, keepdim=True)  # the matrix is symmetric, so its columns have the means of its rows
    return (distances - mean - mean.mT + mean.mean(-2, keepdim=True)).flatten(-2)
