"""LCCRN, locally-enriched cross-reconstruction (Li et al., TCSVT 2023): two maps of an image reconstruct each other.

The formulas follow the authors' code (lutsong/LCCRN). An image has two maps from two separate networks. The second map
is enriched by its neighbourhoods. Each of the query's maps is reconstructed from each of the class's maps, and the four
errors are summed with learned weights.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels of each of the two maps.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.ridge.parameters import rescaled_lambda
from frn.ridge.reconstruction import class_error

WINDOW = 5
"""Side of a neighbourhood, in locations."""
WIDTH = 64
"""Channels of the neighbourhood convolutions; wider maps are narrowed before and widened after."""


class LCCRNHead(Head):
    """Scores a query by how well the two maps of each class reconstruct the two maps of the query.

    All maps have unit locations.
    """

    unequal = "repeat"
    networks = 2
    has_auxiliary_loss = True

    def __init__(self, d: int) -> None:
        """Take maps with d channels in total: half from the first network, half from the second."""
        super().__init__()
        self.enrich = LocalEnrichment(d // 2)
        self.alpha = nn.Parameter(torch.zeros(4))
        self.beta = nn.Parameter(torch.zeros(4))
        self.weights = nn.Parameter(torch.full((4,), 0.25))
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        way, shot = support.shape[:2]
        maps = torch.cat([support.flatten(0, 1), query])
        first, second = maps.chunk(2, -1)
        both = F.normalize(first, dim=-1), self.enrich(second)
        pools = [m[: way * shot].unflatten(0, (way, shot)).flatten(1, 2) for m in both]
        queries = [m[way * shot :] for m in both]
        errors = []
        # in the order of the four numbers in the authors' code
        for i, (q, s) in enumerate(((0, 0), (1, 1), (0, 1), (1, 0))):
            lam = rescaled_lambda(self.alpha[i].double().exp(), *pools[s].shape[1:])
            errors.append(class_error(queries[q], pools[s], lam, self.beta[i].double().exp()))
        return -self.gamma * (torch.stack(errors, -1) @ self.weights)

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the first network's maps, scaled to unit length."""
        return F.normalize(support.chunk(2, -1)[0], dim=-1)


class LocalEnrichment(nn.Module):
    """Replaces each location by the output of two convolutions over its neighbourhood (LCEM)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        width = min(d, WIDTH)
        narrow = d > WIDTH
        self.before = nn.Sequential(*_convolution(d, width, 1), nn.ReLU()) if narrow else nn.Identity()
        self.inside = nn.Sequential(
            *_convolution(width, width, 3), nn.ReLU(), *_convolution(width, width, 3), nn.ReLU()
        )
        self.after = nn.Sequential(*_convolution(width, d, 1)) if narrow else nn.Identity()

    def forward(self, maps: Tensor) -> Tensor:
        """Map (n, r, d) to (n, r, d), each location of unit length. Raises ValueError unless r is a square."""
        n, r, d = maps.shape
        side = math.isqrt(r)
        if side**2 != r:
            raise ValueError(f"neighbourhoods need a square map, but the map has {r} locations")
        grid = F.normalize(maps.relu(), dim=-1).mT.unflatten(2, (side, side))
        windows = F.unfold(grid, WINDOW, padding=WINDOW // 2).mT.reshape(n * r, d, WINDOW, WINDOW)
        filtered = self.inside(self.before(windows)).unflatten(0, (n, r)).flatten(2)  # n, r, width
        enriched: Tensor = self.after(filtered.mT[..., None])[..., 0].mT
        return F.normalize(enriched, dim=-1)


def _convolution(channels_in: int, channels_out: int, side: int) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(channels_in, channels_out, side, bias=False), nn.BatchNorm2d(channels_out)
