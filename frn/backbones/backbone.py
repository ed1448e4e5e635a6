"""The contract of a backbone: images (b, 3, H, W) to feature maps (b, d, h, w), and the shapes of both."""

from torch import nn


class Backbone(nn.Module):
    """A network whose last layer is a map of features."""

    d: int
    """Channels."""
    stride: int
    """Pixels of the image per location of the map."""
    map_scale: float = 1.0
    """What reconstruction heads divide maps by (SM, Hyperparameters)."""
    last_pool: bool = True
    """Whether its last pooling is there."""

    def grid(self, size: int) -> tuple[int, int]:
        """Height and width of the map of a square image of `size` pixels."""
        side = size // self.stride
        return side, side
