"""Covariance pooling, the paper's baseline on meta-iNat (after Wertheimer and Hariharan, CVPR 2019).

The paper only cites it. Here an image is the covariance of its locations, with the signed square root that second-order
pooling commonly takes, and a class is the mean of its images.
"""

import torch
from torch import Tensor, nn

from frn.heads.base import Head
from frn.heads.vectors import squared_distances


class CovarianceHead(Head):
    """Scores a query by the squared distance of its covariance from the mean one of each class.

    Logits are divided by d and multiplied by the temperature gamma.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d)."""
        return -self.gamma * self.class_error(support, query)

    def class_error(self, support: Tensor, query: Tensor) -> Tensor:
        """Return squared distances per channel, (queries, way)."""
        with torch.autocast(query.device.type, enabled=False):
            prototypes = covariance(support).flatten(2).mean(1)  # way, d * d
            return squared_distances(covariance(query).flatten(1), prototypes) / query.shape[-1]


def covariance(maps: Tensor) -> Tensor:
    """Signed square roots of the covariance of the locations: (..., r, d) to (..., d, d)."""
    maps = maps.to(torch.promote_types(maps.dtype, torch.float32))
    centred = maps - maps.mean(-2, keepdim=True)
    raw = centred.mT @ centred / maps.shape[-2]
    return raw.sign() * (raw.abs() + ROOT_FLOOR).sqrt()


ROOT_FLOOR = 1e-5
"""Keeps the slope of the square root finite at zero, where dead channels are."""
