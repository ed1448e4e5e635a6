"""Deep Subspace Networks (Simon et al., CVPR 2020), as in the paper's baseline (supplement, Implemented Baselines).

DSN is FRN with r = 1: each image is one vector, and a query is projected onto the span of a class's supports. The
projection is FRN's closed form with a small fixed lambda.
"""

import torch
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import vectors
from frn.ridge.reconstruction import location_error


class DSNHead(Head):
    """Head that scores a query by its squared distance to the subspace of each class's supports.

    Every subspace contains the origin; the original method moves it to the class's mean. Logits are divided by the
    number of dimensions and multiplied by the temperature gamma.
    """

    lam = 0.01
    """Lambda: "for sufficiently small regularizer lambda; we use 0.01" (supplement)."""

    def __init__(self, *, pooled: bool) -> None:
        """Compare average-pooled maps (ResNet-12) or whole flattened ones (Conv-4)."""
        super().__init__()
        self.pooled = pooled
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d)."""
        return -self.gamma * self.class_error(support, query)

    def class_error(self, support: Tensor, query: Tensor) -> Tensor:
        """Return squared distances per dimension, (queries, way)."""
        with torch.autocast(query.device.type, enabled=False):
            pool = vectors(support, pooled=self.pooled)  # way, shot, dimensions
            queries = vectors(query, pooled=self.pooled)
            return location_error(queries, pool, self.lam, 1.0).mT / pool.shape[-1]

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the compared vectors, (way, shot, 1, dimensions): the paper's "actual (normalized) support points"."""
        return vectors(support, pooled=self.pooled).unsqueeze(2)
