"""Several networks as one backbone: their maps lie side by side in the channels."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from frn.backbones.backbone import Backbone


class Several(Backbone):
    """Networks of one architecture, each with weights of its own, on the same images."""

    def __init__(self, networks: Sequence[Backbone]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.d = sum(network.d for network in networks)
        self.stride, self.map_scale, self.last_pool = self._first.stride, self._first.map_scale, self._first.last_pool

    @property
    def _first(self) -> Backbone:
        first = self.networks[0]
        assert isinstance(first, Backbone)
        return first

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        return torch.cat([network(images) for network in self.networks], 1)

    def grid(self, size: int) -> tuple[int, int]:
        """Return height and width of the feature map of a square image of `size` pixels."""
        return self._first.grid(size)
