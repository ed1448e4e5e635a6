"""Cosine similarity to class means, as Baseline++ compares (Chen et al., ICLR 2019), in episodes."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import vectors


class CosineHead(Head):
    """Scores a query by the cosine of its angle to the mean direction of each class's supports, times gamma."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor(10.0))

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d)."""
        with torch.autocast(query.device.type, enabled=False):
            directions = F.normalize(F.normalize(vectors(support, pooled=True), dim=-1).mean(1), dim=-1)  # way, d
            return self.gamma * F.normalize(vectors(query, pooled=True), dim=-1) @ directions.mT
