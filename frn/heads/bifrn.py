"""Bi-FRN (Wu et al., AAAI 2023): query and supports reconstruct themselves, then each other.

The head follows the authors' code (PRIS-CV/Bi-FRN). Bi-FRN has two modules: feature self-reconstruction (FSRM), a small
transformer within each map, and feature mutual reconstruction (FMRM), softmax attention between learned projections.
Like FRN it measures reconstruction, but without ridge regression, lambda, rho and auxiliary loss.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, q queries; m rows to
reconstruct, g groups of n rows to use for it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head


class BiFRNHead(Head):
    """Head that scores a query by how well it and each class's supports reconstruct each other.

    Errors are summed over the maps, so the supports' error grows with the shot; logits are divided by r d.
    """

    def __init__(self, d: int) -> None:
        """Use queries, keys and values of d channels."""
        super().__init__()
        self.itself = SelfReconstruction(d)
        self.projections = nn.Linear(d, 3 * d, bias=False)
        self.weight_forth = nn.Parameter(torch.tensor(0.5))
        """Weight of the error of the query reconstructed from the supports (the code's `w2`)."""
        self.weight_back = nn.Parameter(torch.tensor(0.5))
        """Weight of the error of the supports reconstructed from the query (`w1`)."""
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        way, shot, r, d = support.shape
        pool = self.projections(self.itself(support.flatten(0, 1))).unflatten(0, (way, shot)).flatten(1, 2)
        locations = self.projections(self.itself(query))  # q, r, 3 d; pool is way, p, 3 d
        forth = self.attention_error(locations.flatten(0, 1), pool)  # way, q * r
        back = self.attention_error(pool.flatten(0, 1), locations)  # q, way * p
        forth, back = forth.unflatten(1, (-1, r)).sum(-1).mT, back.unflatten(1, (way, -1)).sum(-1)
        return -self.gamma * (self.weight_forth * forth + self.weight_back * back) / (r * d)

    def attention_error(self, rows: Tensor, groups: Tensor) -> Tensor:
        """Return the squared error (g, m) of rows (m, 3 d), reconstructed from each of the groups (g, n, 3 d)."""
        queries, _, value = rows.chunk(3, -1)
        _, keys, values = groups.chunk(3, -1)
        attention = (queries @ keys.mT / value.shape[-1] ** 0.5).softmax(-1)  # g, m, n
        # Dropout of the attention between maps in training (from the authors' code)
        reconstruction = F.dropout(attention, 0.1, self.training) @ values
        return (value - reconstruction).square().sum(-1)


class SelfReconstruction(nn.Module):
    """A transformer with one layer and one head over the locations of a map (FSRM); the map keeps its shape."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(d)
        self.attention = nn.Linear(d, 3 * d, bias=False)
        self.attended = nn.Linear(d, d)
        self.after_attention = nn.LayerNorm(d)
        self.inner = nn.Linear(d, d)
        self.outer = nn.Linear(d, d)
        self.last = nn.LayerNorm(d)
        for layer in (self.attention, self.attended, self.inner, self.outer):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, maps: Tensor) -> Tensor:
        """Map (n, r, d) to (n, r, d)."""
        maps = maps + positions(*maps.shape[1:], like=maps)
        queries, keys, values = self.attention(self.before_attention(maps)).chunk(3, -1)
        attention = (queries @ keys.mT / maps.shape[-1] ** 0.5).softmax(-1)
        # normalised like the trunk of the network, as in the code
        maps = self.after_attention(maps + self.attended(attention @ values))
        maps = maps + self.outer(F.gelu(self.inner(maps)))
        return self.last(maps)


def positions(r: int, d: int, *, like: Tensor) -> Tensor:
    """Return the positional encoding (r, d): sines at even channels, cosines at odd ones, with falling frequencies."""
    channel = torch.arange(d, device=like.device)
    angle = torch.arange(r, device=like.device)[:, None] / 10000 ** ((channel // 2).double() * 2 / d)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos()).to(like.dtype)
