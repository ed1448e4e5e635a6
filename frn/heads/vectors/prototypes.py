"""Heads that compare a query with the mean of each class's supports, all with a learned temperature gamma.

- ProtoNet (Snell et al., NeurIPS 2017), as the paper's supplement describes it.
- SimpleShot (Wang et al., 2019) with centred, length-normalised features (CL2N).
- Nearest cosine prototype, as in Meta-Baseline (Chen et al., ICCV 2021), whose prototype is the mean of the supports'
  features; here it is the mean of the L2-normalised features. Gidaris and Komodakis (CVPR 2018) classify by cosines.
- Covariance pooling, the paper's baseline on meta-iNat. The paper only cites Wertheimer and Hariharan (CVPR 2019); the
  head follows the public code of that work (`covapool` of daviswer/fewshotlocal).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import squared_distances, vectors

ROOT_FLOOR = 1e-5
"""Floor that keeps the square root's slope finite at zero, as for dead channels (the cited code's value)."""


class ProtoHead(Head):
    """Head that scores a query by its squared distance to the mean of each class's supports.

    Logits are divided by the number of dimensions.
    """

    unequal = "mean"

    def __init__(self, *, pooled: bool) -> None:
        """Compare average-pooled maps (ResNet-12) or whole flattened ones (Conv-4)."""
        super().__init__()
        self.pooled = pooled
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = vectors(support, pooled=self.pooled).mean(1)  # way, dimensions
        embedded = vectors(query, pooled=self.pooled)
        return -self.gamma * (squared_distances(embedded, prototypes) / embedded.shape[-1])


class SimpleShotHead(Head):
    """Head that scores a query by its squared distance to each class's centroid on the unit sphere.

    The centre is the mean of the training images' features: a running mean, saved with the weights.
    """

    unequal = "repeat"
    momentum = 0.05
    centre: Tensor

    def __init__(self, d: int) -> None:
        """Use average-pooled features of d channels."""
        super().__init__()
        self.register_buffer("centre", torch.zeros(d))
        self.gamma = nn.Parameter(torch.tensor(10.0))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        members, queries = vectors(support, pooled=True), vectors(query, pooled=True)
        if self.training:
            mean = torch.cat([members.flatten(0, 1), queries]).mean(0).detach()
            self.centre.lerp_(mean.to(self.centre.dtype), self.momentum)
        prototypes = F.normalize(members - self.centre, dim=-1).mean(1)
        return -self.gamma * squared_distances(F.normalize(queries - self.centre, dim=-1), prototypes)


class CosineHead(Head):
    """Head that scores a query by its cosine with the mean of the supports' unit vectors."""

    unequal = "repeat"

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor(10.0))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        directions = F.normalize(F.normalize(vectors(support, pooled=True), dim=-1).mean(1), dim=-1)  # way, d
        return self.gamma * F.normalize(vectors(query, pooled=True), dim=-1) @ directions.mT


class CovarianceHead(Head):
    """Head that scores a query by the squared distance from its second moments to each class's mean second moments.

    Logits are divided by d, as in the paper's baselines; the cited code has no temperature.
    """

    unequal = "repeat"
    warm_up = 200

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = second_moments(support).flatten(2).mean(1)  # way, d * d
        return -self.gamma * (squared_distances(second_moments(query).flatten(1), prototypes) / query.shape[-1])


def second_moments(maps: Tensor) -> Tensor:
    """Return signed square roots of the mean outer product of the locations: (..., r, d) to (..., d, d).

    The mean is *not* subtracted.
    """
    raw = maps.mT @ maps / maps.shape[-2]
    return raw.sign() * (raw.abs() + ROOT_FLOOR).sqrt()
