"""The contract of a head: `(support, query) -> logits`, and what it can do beyond that."""

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from frn.heads.frn import FRNHead


class Head(nn.Module):
    """A head that compares feature maps as they are. A subclass overrides what it does otherwise."""

    scaled_maps = False
    """Whether it wants maps divided by the backbone's `map_scale` (SM, Hyperparameters)."""

    @property
    def ridge(self) -> "FRNHead | None":
        """The closed form with its learned alpha, beta and gamma, if that is all that scores a query (Eq. 5-9)."""
        return None

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """What the auxiliary loss keeps apart (Eq. 11) of the supports (way, shot, r, d): all locations."""
        return support

    def trouble(self) -> str:
        """What training has done to the head that it does not recover from; empty if nothing."""
        return ""
