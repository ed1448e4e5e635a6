"""The contract of a head: `(support, query) -> logits`, and what it can do beyond that."""

from torch import Tensor, nn


class Head(nn.Module):
    """A head that compares feature maps as they are. A subclass overrides what it does otherwise."""

    networks = 1
    """How many networks make its maps, which lie side by side in the channels."""
    revision = 1
    """Counts changes to what it computes. Models trained with another revision are reported."""
    scaled_maps = False
    """Whether it wants maps divided by the backbone's `map_scale` (SM, Hyperparameters)."""

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """What the auxiliary loss keeps apart (Eq. 11) of the supports (way, shot, r, d): all locations."""
        return support

    def divergence_reason(self) -> str:
        """Return why training cannot recover, as a message; empty while it can."""
        return ""
