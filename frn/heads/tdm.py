"""TDM, task discrepancy maximisation (Lee et al., CVPR 2022): channels are weighted by how well they separate classes.

The code follows the authors' public code. Each channel's activation is compared with the mean over channels; a small
distance means that the channel responds where most channels do. Three small networks turn these distances into weights
between 0 and 2, per class (support attention) and per query (query attention). The head then compares weighted maps.

Shape letters: way classes, q queries, r locations, d channels.
"""

import torch
from torch import Tensor, nn

from frn.heads.frn import FRNHead
from frn.heads.head import Head
from frn.ridge.reconstruction import reconstruct


class ChannelWeights(nn.Module):
    """Network that computes channel weights for every pair of a class and a query."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.within, self.between, self.query = SandGlass(d), SandGlass(d), SandGlass(d)

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return weights (way, q, d) from support (way, shot, r, d) and query (q, r, d)."""
        prototypes = support.mean(1)  # way, r, d
        # mean squared distance of each class's channels from the channel means of each class: way, way, d
        distances = (prototypes[:, None] - prototypes.mean(-1)[..., None]).square().mean(2)
        number = torch.arange(prototypes.shape[0], device=prototypes.device)
        is_same = number[:, None] == number
        others = distances.masked_fill(is_same[..., None], torch.inf).amin(1)
        classes = (self.within(_scatter(prototypes)) + self.between(others)) / 2
        weights = (classes[:, None] + self.query(_scatter(query))) / 2
        if self.training:
            # Largest random change of the weights in training (from the authors' code)
            weights = (weights + 0.2 * (2 * torch.rand_like(weights) - 1)).clamp(0, 2)
        return weights


def _scatter(maps: Tensor) -> Tensor:
    """Return the mean squared distance of each channel from the mean channel of its map: (n, r, d) to (n, d)."""
    return (maps - maps.mean(-1, keepdim=True)).square().mean(1)


class SandGlass(nn.Module):
    """Network from channel distances (n, d) to weights between 0 and 2."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.wide = nn.Linear(d, 2 * d, bias=False)
        self.norm = nn.BatchNorm1d(2 * d)
        self.narrow = nn.Linear(2 * d, d, bias=False)
        for layer in (self.wide, self.narrow):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, distances: Tensor) -> Tensor:
        """Return weights (n, d)."""
        return 1 + self.narrow(self.norm(self.wide(distances)).relu()).tanh()


class TDMProtoHead(Head):
    """ProtoNet on weighted maps. Logits are divided by the number of dimensions and multiplied by gamma."""

    unequal = "mean"

    def __init__(self, d: int, *, pooled: bool) -> None:
        """Compare average-pooled maps (ResNet-12) or whole ones (Conv-4)."""
        super().__init__()
        self.pooled = pooled
        self.weights = ChannelWeights(d)
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        weights = self.weights(support, query)  # way, q, d
        prototypes = support.mean(1)[:, None]
        difference = prototypes - query  # way, q, r, d
        squared = difference.mean(2).square() if self.pooled else difference.square().mean(2)
        return -self.gamma * (weights.square() * squared).mean(-1).mT


class TDMFRNHead(Head):
    """FRN with weighted reconstruction errors. The reconstruction itself is FRN's (Eq. 8 and 10)."""

    scaled_maps = True
    has_auxiliary_loss = True

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weights = ChannelWeights(d)
        self.frn = FRNHead()

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        pool, locations = support.flatten(1, 2), query.flatten(0, 1)
        reconstruction = reconstruct(
            locations, pool, lam=self.frn.lam(*pool.shape[1:]), rho=self.frn.rho()
        )  # way, n, d
        error = (reconstruction - locations).square().unflatten(1, query.shape[:2]).mean(2)  # way, q, d
        return -self.frn.gamma * (self.weights(support, query).square() * error).sum(-1).mT
