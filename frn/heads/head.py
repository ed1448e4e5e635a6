"""Interface of a head: `(support, query) -> logits`, and its optional features."""

from torch import Tensor, nn


class Head(nn.Module):
    """Base class of heads that compare feature maps unchanged. Subclasses override what differs."""

    networks = 1
    """Number of networks that make its maps; their maps lie side by side in the channels."""
    maps: tuple[int, ...] = (-1,)
    """Blocks of the backbone that make its map. With several, the head is built from their `sizes` instead of d, and
    `stage_maps` takes them apart."""
    revision = 1
    """Number of changes to the computation. Models trained with another revision are reported."""
    scaled_maps = False
    """Whether the head expects maps divided by the backbone's `map_scale` (SM, Hyperparameters)."""

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the vectors that the auxiliary loss (Eq. 11) separates: all supports (way, shot, r, d)."""
        return support

    def divergence_reason(self) -> str:
        """Return a message why training cannot recover, or an empty string."""
        return ""


Sizes = tuple[tuple[int, int], ...]
"""Of each stage, how many of its locations lie along a side of one of the last stage's, and its channels."""


def stage_maps(maps: Tensor, sizes: Sizes) -> list[Tensor]:
    """Take the maps of several stages apart: (..., r, all channels) to (..., r side^2, d) of each stage."""
    parts = maps.split([side**2 * d for side, d in sizes], -1)
    return [part.unflatten(-1, (d, side**2)).mT.flatten(-3, -2) for part, (side, d) in zip(parts, sizes, strict=True)]
