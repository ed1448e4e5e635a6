"""Deep Subspace Networks (Simon et al., CVPR 2020), as in the paper's baseline (supplement, Implemented Baselines).

DSN is FRN with r = 1: each image is one vector, and a query is projected onto the span of a class's supports. The
projection is FRN's closed form with a small fixed lambda.
"""

import torch
from torch import Tensor, nn

from frn.heads.head import Head, in_float
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

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        pool = vectors(support, pooled=self.pooled)  # way, shot, dimensions
        error = location_error(vectors(query, pooled=self.pooled), pool, self.lam, 1.0)
        return -self.gamma * (error.mT / pool.shape[-1])

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the compared vectors, (way, shot, 1, dimensions): the paper's "actual (normalized) support points"."""
        return vectors(in_float(support), pooled=self.pooled).unsqueeze(2)
