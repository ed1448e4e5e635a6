"""Deep Subspace Networks (Simon et al., CVPR 2020), as the paper's baseline has them (SM, Implemented Baselines).

FRN with r = 1: images are average-pooled, and a query is projected onto what the supports of a class span. The
projection is the closed form of FRN with a small fixed lambda.
"""

import torch
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import vectors
from frn.ridge.reconstruction import location_error


class DSNHead(Head):
    """Scores a query by its squared distance from the subspace of each class's supports.

    The origin is in every subspace; the original method moves it to the class's mean. Logits are divided by d and
    multiplied by the temperature gamma.
    """

    lam = 0.01
    """"for sufficiently small regularizer lambda; we use 0.01" (SM)."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d)."""
        return -self.gamma * self.class_error(support, query)

    def class_error(self, support: Tensor, query: Tensor) -> Tensor:
        """Return squared distances per dimension, (queries, way)."""
        with torch.autocast(query.device.type, enabled=False):
            pool, queries = vectors(support, pooled=True), vectors(query, pooled=True)  # way, shot, d and queries, d
            return location_error(queries, pool, self.lam, 1.0).mT / pool.shape[-1]

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """One point per support image, (way, shot, 1, d): "the actual (normalized) support points" (SM)."""
        return support.mean(2, keepdim=True)
