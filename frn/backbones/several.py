"""Several networks, or several stages of one, as a backbone whose maps are concatenated along the channels."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones.backbone import Backbone
from frn.errors import FrnError


class Several(Backbone):
    """Several networks of one architecture with separate weights, applied to the same images."""

    def __init__(self, networks: Sequence[Backbone]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.d = sum(network.d for network in networks)
        first = networks[0]
        self.stride, self.map_scale, self.last_pool = first.stride, first.map_scale, first.last_pool

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        return torch.cat([network(images) for network in self.networks], 1)

    def grid(self, size: int) -> tuple[int, int]:
        """Return the height and width of the feature map of a square image of `size` pixels."""
        first = self.networks[0]
        assert isinstance(first, Backbone)
        return first.grid(size)


class Stages(Backbone):
    """Maps of several blocks of one network, the last block's map last.

    The locations of a finer map within one location of the last map become channels of that location. So only the rim
    that pooling drops is lost.
    """

    def __init__(self, network: Backbone, blocks: Sequence[int], size: int) -> None:
        """Select blocks by their position in the network, for images of `size` pixels.

        Raises FrnError if the network has no such blocks.
        """
        super().__init__()
        parts = getattr(network, "blocks", None)
        if not isinstance(parts, nn.Sequential) or not all(-len(parts) <= block < len(parts) for block in blocks):
            raise FrnError(
                f"a {type(network).__name__} lacks the blocks {', '.join(map(str, blocks))} that the head needs"
            )
        self.network, self.places = network, sorted(block % len(parts) for block in blocks)
        self.stride, self.map_scale, self.last_pool = network.stride, network.map_scale, network.last_pool
        training = network.training
        network.eval()  # so that the probe does not change the running statistics
        with torch.no_grad():
            maps = self._maps(torch.zeros(1, 3, size, size))
        network.train(training)
        self.sizes = tuple((each.shape[-1] // maps[-1].shape[-1], each.shape[1]) for each in maps)
        """For each block: its locations along one side of a location of the last map, and its channels."""
        self.d = sum(side**2 * d for side, d in self.sizes)

    def _maps(self, images: Tensor) -> list[Tensor]:
        """Return the blocks' maps of normalised images (b, 3, H, W)."""
        found: list[Tensor] = []
        stem = getattr(self.network, "stem", 1)
        x = F.pixel_unshuffle(images, stem) if stem > 1 else images
        for place, block in enumerate(self.network.get_submodule("blocks").children()):
            x = block(x)
            if place in self.places:
                found.append(x)
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        maps = self._maps(images)
        h, w = maps[-1].shape[-2:]
        packed = (
            F.pixel_unshuffle(each[..., : h * side, : w * side], side)
            for each, (side, _) in zip(maps, self.sizes, strict=True)
        )
        return torch.cat(list(packed), 1)

    def grid(self, size: int) -> tuple[int, int]:
        """Return the height and width of the feature map of a square image of `size` pixels."""
        return self.network.grid(size)
