"""Interface of a head: `(support, query) -> logits`, and its optional features."""

import torch
from torch import Tensor, nn


class Head(nn.Module):
    """Base class of all heads. A subclass implements `_logits` and overrides the defaults below that differ."""

    networks = 1
    """Number of networks that compute its maps; the maps are concatenated along the channels."""
    scaled_maps = False
    """Whether the head expects maps divided by the backbone's `map_scale` (supplement, Hyperparameters)."""

    separable = False
    """Whether a class's logits depend on its own supports only, so that classes may have different numbers of them."""
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

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the vectors that the auxiliary loss (Eq. 11) separates: all supports (way, shot, r, d)."""
        return support

    def divergence_reason(self) -> str:
        """Return the reason why training of this head, or of one that it contains, cannot recover, or ""."""
        parts = (part for part in self.children() if isinstance(part, Head))
        return next(filter(None, (part.divergence_reason() for part in parts)), "")


def in_float(maps: Tensor) -> Tensor:
    """Return maps in float32 or a wider type."""
    return maps.to(torch.promote_types(maps.dtype, torch.float32))
