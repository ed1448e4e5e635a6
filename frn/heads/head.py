"""Interface of a head: `(support, query) -> logits`, and its optional features."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from frn.errors import FrnError


class Head(nn.Module):
    """Base class of all heads. A subclass implements `_logits` and overrides the defaults below that differ."""

    networks = 1
    """Number of networks that compute its maps; the maps are concatenated along the channels."""
    scaled_maps = False
    """Whether the head expects maps divided by the backbone's `map_scale` (supplement, Hyperparameters)."""

    unequal = ""
    """How classes may have different numbers of supports.

    "mean": supports enter only by the mean map of their class. "repeat": a class's logits depend on its own supports
    only, and not on how often all of them are repeated. "": each class needs the same number.
    """
    has_auxiliary_loss = False
    """Whether training adds the auxiliary loss (Eq. 11) by default."""
    warm_up = 0
    """Default steps over which the learning rate rises, if full first steps spoil the head's scale for good."""

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from support (way, shot, r, d) and query (queries, r, d).

        Heads compute in float32 or a wider type, also under autocast.
        """
        with torch.autocast(query.device.type, enabled=False):
            return self._logits(in_float(support), in_float(query))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        raise NotImplementedError

    def compare(self, pools: Sequence[Tensor], query: Tensor) -> Tensor:
        """Return logits (queries, way) from the supports (k, r, d) of each class, whose numbers k may differ.

        The only support of a class is given twice then, because DeepBDC has another measure for one shot.

        Raises FrnError if the numbers differ and the head needs equal ones.
        """
        logits: Tensor
        if len({len(pool) for pool in pools}) == 1:
            logits = self(torch.stack([*pools]), query)
        elif self.unequal == "mean":
            logits = self(torch.stack([pool.mean(0, keepdim=True) for pool in pools]), query)
        elif self.unequal == "repeat":
            pools = [pool if len(pool) > 1 else pool.expand(2, -1, -1) for pool in pools]
            logits = torch.cat([self(pool[None], query) for pool in pools], dim=1)
        else:
            raise FrnError(f"{type(self).__name__} needs the same number of supports for each class")
        return logits

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the vectors that the auxiliary loss (Eq. 11) separates: all supports (way, shot, r, d)."""
        return support

    def start_on(self, episodes: Sequence[Tensor], shot: int) -> None:
        """Choose a scale for a trained network on episodes of its maps, (way, shot + queries, r, d) each."""

    def divergence_reason(self) -> str:
        """Return the reason why training of this head, or of one that it contains, cannot recover, or ""."""
        parts = (part for part in self.children() if isinstance(part, Head))
        return next(filter(None, (part.divergence_reason() for part in parts)), "")


def in_float(maps: Tensor) -> Tensor:
    """Return maps in float32 or a wider type."""
    return maps.to(torch.promote_types(maps.dtype, torch.float32))
