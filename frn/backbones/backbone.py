"""Interface of a backbone: images (b, 3, H, W) to feature maps (b, d, h, w), and the shapes of both."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from frn.errors import FrnError, shorten

Network = TypeVar("Network", bound=nn.Module)


class Backbone(nn.Module):
    """A network whose output is a feature map."""

    d: int
    """Number of channels."""
    stride: int
    """Image pixels per location of the feature map."""
    map_scale: float = 1.0
    """Divisor that reconstruction heads apply to feature maps (supplement, Hyperparameters)."""
    last_pool: bool = True
    """Whether the backbone keeps its last pooling."""

    def grid(self, size: int) -> tuple[int, int]:
        """Return the height and width of the feature map of a square image of `size` pixels."""
        side = size // self.stride
        return side, side


class ForeignBackbone(Backbone):
    """A network from another package, whose map shape is determined with an image of `size` pixels."""

    def probe(self, make: Callable[[], Network], name: str, size: int) -> Network:
        """Build the network and inspect its map for a black image.

        Raises FrnError, starting with `name`, if it has none.
        """
        try:
            network = make()
            training = network.training
            with torch.no_grad():
                maps = network.eval()(torch.zeros(1, 3, size, size))
        except FrnError:
            raise
        except (RuntimeError, ValueError, TypeError, AssertionError, IndexError) as error:
            raise FrnError(
                f"{name}: returns no feature map for {size} x {size} images ({shorten(error)}). Give another --size."
            ) from error
        network.train(training)
        if not isinstance(maps, Tensor) or maps.ndim != 4:
            found = f"a tensor of {tuple(maps.shape)}" if isinstance(maps, Tensor) else f"a {type(maps).__name__}"
            raise FrnError(f"{name}: returns {found}, not maps (b, d, h, w)")
        _, self.d, h, w = maps.shape
        self.size, self.own_grid = size, (h, w)
        self.stride = max(1, size // max(h, w))
        """Approximate pixels per location."""
        self.map_scale = float(self.d) ** 0.5
        """Chosen as for ResNet-12, so that the mean energy of a location is one and lambda has its usual size."""
        return network

    def grid(self, size: int) -> tuple[int, int]:
        """Return height and width of the map of the inspected image."""
        assert size == self.size
        return self.own_grid
