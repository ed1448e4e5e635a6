"""Covariance pooling, the paper's baseline on meta-iNat (after Wertheimer and Hariharan, CVPR 2019).

The paper only cites it. This head follows the public code of that work, by the paper's first author (`covapool` of
daviswer/fewshotlocal): an image is the mean outer product of its locations under a signed square root. The mean is
*not* subtracted. A class is the mean of its images.
"""

import torch
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import squared_distances


class CovarianceHead(Head):
    """Head that scores a query by the squared distance from its second moments to each class's mean second moments.

    Logits are divided by d and multiplied by the temperature gamma, as in the paper's baselines; the cited code has no
    temperature.
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
            prototypes = second_moments(support).flatten(2).mean(1)  # way, d * d
            return squared_distances(second_moments(query).flatten(1), prototypes) / query.shape[-1]


def second_moments(maps: Tensor) -> Tensor:
    """Return signed square roots of the mean outer product of the locations: (..., r, d) to (..., d, d)."""
    maps = maps.to(torch.promote_types(maps.dtype, torch.float32))
    raw = maps.mT @ maps / maps.shape[-2]
    return raw.sign() * (raw.abs() + ROOT_FLOOR).sqrt()


ROOT_FLOOR = 1e-5
"""Floor that keeps the square root's slope finite at zero, as for dead channels (the cited code's value)."""
