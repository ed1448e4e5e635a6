"""SRM, self-reconstruction (Li et al., Pattern Recognition 2024): the query is also reconstructed from itself.

The formulas follow the authors' code (liz-lut/SRM-main). A class's reconstruction is compared with the query and with
the query's reconstruction from its own map, and both errors are summed. The code's loss has one more term, 0.001 times
the cross-entropy of the wrong classes, which is omitted here.

Shape letters: way classes, r locations per map, d channels, q queries.
"""

import torch
from torch import Tensor, nn

from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.ridge.parameters import rescaled_lambda
from frn.ridge.reconstruction import reconstruct


class SRMHead(Head):
    """Scores a query by the distance from each class's reconstruction to it and to its self-reconstruction."""

    unequal = "repeat"
    scaled_maps = True
    has_auxiliary_loss = True
    warm_up = 50

    def __init__(self) -> None:
        super().__init__()
        self.frn = FRNHead()
        self.own_alpha = nn.Parameter(torch.zeros(()))
        self.own_beta = nn.Parameter(torch.zeros(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        pool = support.flatten(1, 2)
        by_class = reconstruct(query.flatten(0, 1), pool, self.frn.lam(*pool.shape[1:]), self.frn.rho())
        own_lam = rescaled_lambda(self.own_alpha.double().exp(), *query.shape[1:])
        by_itself = self_reconstruction(query, own_lam, self.own_beta.double().exp())
        by_class = by_class.unflatten(1, query.shape[:2])  # way, q, r, d
        error = (by_class - query).square() + (by_class - by_itself).square()
        return -self.frn.gamma * error.sum(-1).mean(-1).mT


def self_reconstruction(maps: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Reconstruct each map (q, r, d) from its own locations by ridge regression (Eq. 8 with the map as the pool)."""
    gram = maps.double() @ maps.double().mT  # q, r, r
    identity = torch.eye(maps.shape[1], dtype=gram.dtype, device=gram.device)
    weights = rho * torch.linalg.solve(gram + lam * identity, gram)
    return weights.to(maps.dtype) @ maps
