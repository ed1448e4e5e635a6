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

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d)."""
        return -self.gamma * self.class_error(support, query)

    def class_error(self, support: Tensor, query: Tensor) -> Tensor:
        """Return squared distances per dimension, (queries, way)."""
        with torch.autocast(query.device.type, enabled=False):
            prototypes = vectors(support, pooled=self.pooled).mean(1)  # way, dimensions
            embedded = vectors(query, pooled=self.pooled)
            return squared_distances(embedded, prototypes) / embedded.shape[-1]
