"""CrossTransformers (Doersch et al., NeurIPS 2020), as in the paper's baseline (Sec. 3.7, Eq. 14).

Like FRN, they reconstruct a query map from each class's pool, but with attention between learned projections instead of
a closed form. The paper does not give the width of keys and values; here they are as wide as the map.
"""

import torch
from torch import Tensor, nn

from frn.heads.head import Head


class CTXHead(Head):
    """Head that scores a query by how well attention over each class's pool reconstructs its values.

    Logits are divided by d and multiplied by the temperature gamma.
    """

    unequal = "repeat"
    has_auxiliary_loss = True

    def __init__(self, d: int) -> None:
        """Use keys and values of d channels."""
        super().__init__()
        self.key = nn.Linear(d, d, bias=False)
        self.value = nn.Linear(d, d, bias=False)
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        pool, locations = support.flatten(1, 2), query.flatten(0, 1)  # way, p, d and n, d
        d = pool.shape[-1]
        attention = (self.key(locations) @ self.key(pool).mT / d**0.5).softmax(-1)  # way, n, p
        reconstruction = attention @ self.value(pool)  # Eq. 14
        error = (reconstruction - self.value(locations)).square().sum(-1)  # way, n
        return -self.gamma * (error.unflatten(1, query.shape[:2]).mean(-1).mT / d)
