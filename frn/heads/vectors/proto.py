"""Prototypical Networks (Snell et al., NeurIPS 2017), as the paper's supplement describes it."""

import torch
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import squared_distances, vectors


class ProtoHead(Head):
    """Head that scores a query by its squared distance to the mean of each class's supports.

    Logits are divided by the number of dimensions and multiplied by the temperature gamma.
    """

    def __init__(self, *, pooled: bool) -> None:
        """Compare average-pooled maps (ResNet-12) or whole flattened ones (Conv-4)."""
        super().__init__()
        self.pooled = pooled
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = vectors(support, pooled=self.pooled).mean(1)  # way, dimensions
        embedded = vectors(query, pooled=self.pooled)
        return -self.gamma * (squared_distances(embedded, prototypes) / embedded.shape[-1])
