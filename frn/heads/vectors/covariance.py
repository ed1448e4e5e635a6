"""Covariance pooling, the paper's baseline on meta-iNat (after Wertheimer and Hariharan, CVPR 2019).

The paper only cites it. This head follows the public code of that work, by the paper's first author (`covapool` of
daviswer/fewshotlocal): an image is the mean outer product of its locations under a signed square root. The mean is
*not* subtracted. A class is the mean of its images.
"""

import torch
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import squared_distances

ROOT_FLOOR = 1e-5
"""Floor that keeps the square root's slope finite at zero, as for dead channels (the cited code's value)."""


class CovarianceHead(Head):
    """Head that scores a query by the squared distance from its second moments to each class's mean second moments.

    Logits are divided by d and multiplied by the temperature gamma, as in the paper's baselines; the cited code has no
    temperature.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = second_moments(support).flatten(2).mean(1)  # way, d * d
        return -self.gamma * (squared_distances(second_moments(query).flatten(1), prototypes) / query.shape[-1])


def second_moments(maps: Tensor) -> Tensor:
    """Return signed square roots of the mean outer product of the locations: (..., r, d) to (..., d, d)."""
    raw = maps.mT @ maps / maps.shape[-2]
    return raw.sign() * (raw.abs() + ROOT_FLOOR).sqrt()
