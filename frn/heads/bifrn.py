"""Bi-directional FRN (Wu et al., AAAI 2023): supports rebuild the query, and the query rebuilds the supports.

The first direction keeps classes apart, the second keeps a class together. Each has its own lambda and rho, and the two
errors are weighted by learned numbers that start at a half.
"""

import torch
from torch import Tensor, nn

from frn.heads.base import Head
from frn.heads.frn import FRNHead
from frn.ridge.reconstruction import class_error


class BiFRNHead(Head):
    """Scores a query by how well it and each class's supports rebuild each other."""

    scaled_maps = True

    def __init__(self) -> None:
        super().__init__()
        self.forth, self.back = FRNHead(), FRNHead()
        self.weight_forth = nn.Parameter(torch.tensor(0.5))
        self.weight_back = nn.Parameter(torch.tensor(0.5))
        self.back.gamma.requires_grad_(False)  # one temperature is enough: the weights say the rest

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d)."""
        pool = support.flatten(1, 2)  # way, p, d
        forth = self.forth.class_error(support, query)
        lam, rho = self.back.lam(*query.shape[1:]), self.back.rho()
        back = class_error(pool, query, lam=lam, rho=rho).mT  # a pool is the map, each query a pool
        return -self.forth.gamma * (self.weight_forth * forth + self.weight_back * back)
