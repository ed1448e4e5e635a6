"""Interface of a head: `(support, query) -> logits`, and its optional features."""

from torch import Tensor, nn


class Head(nn.Module):
    """Base class of heads that compare feature maps unchanged. Subclasses override what differs."""

    networks = 1
    """Number of networks that make its maps; their maps lie side by side in the channels."""
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
