"""ResNet-12 (SM, Network Backbones): four residual blocks of three convolutions, 64-160-320-640 channels."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones.base import Backbone


def drop_block(maps: Tensor, rate: float, size: int) -> Tensor:
    """DropBlock (Ghiasi et al., NeurIPS 2018): zero random size x size squares of each channel, rescale the rest.

    Args:
        maps: feature maps (b, d, h, w).
        rate: expected share of zeroed locations, in [0, 1).
        size: side of a square, cut to the map's own side.
    """
    b, d, h, w = maps.shape
    size = min(size, h, w)
    seeds_rate = rate * h * w / (size**2 * (h - size + 1) * (w - size + 1))
    seeds = torch.rand(b, d, h - size + 1, w - size + 1, device=maps.device) < seeds_rate
    dropped = F.max_pool2d(F.pad(seeds.float(), [size - 1] * 4), size, stride=1)
    kept = 1 - dropped
    return maps * (kept * kept.numel() / kept.sum().clamp_min(1)).to(maps.dtype)


class ResidualBlock(nn.Module):
    """Three convolutions beside a 1 x 1 shortcut, then LeakyReLU(0.1) and 2 x 2 max-pooling."""

    def __init__(self, channels_in: int, channels_out: int, *, pool: bool, drop_rate: float, drop_size: int) -> None:
        super().__init__()

        def conv(channels: int, kernel: int) -> nn.Sequential:
            convolution = nn.Conv2d(channels, channels_out, kernel, padding=kernel // 2, bias=False)
            return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

        self.conv1 = conv(channels_in, 3)
        self.conv2 = conv(channels_out, 3)
        self.conv3 = conv(channels_out, 3)
        self.shortcut = conv(channels_in, 1)
        self.pool = pool
        self.drop_rate = drop_rate
        self.drop_size = drop_size

    def forward(self, x: Tensor) -> Tensor:
        """Map (b, channels_in, h, w) to (b, channels_out, h // 2, w // 2), or keep h and w without pooling."""
        main = F.leaky_relu(self.conv1(x), 0.1, inplace=True)
        main = F.leaky_relu(self.conv2(main), 0.1, inplace=True)
        # LeakyReLU is increasing, so it commutes with max-pooling: pool first, activate a quarter.
        x = self.conv3(main) + self.shortcut(x)
        if self.pool:
            x = F.max_pool2d(x, 2)
        x = F.leaky_relu(x, 0.1, inplace=True)
        if self.training and self.drop_rate > 0:
            x = drop_block(x, self.drop_rate, self.drop_size)
        return x


WIDE = (64, 160, 320, 640)
"""Channels of the four blocks, as in the paper."""
SMALL = (32, 64, 128, 256)
"""A sixth of the parameters and of the work: what two processor cores can train and run."""


class ResNet12(Backbone):
    """Four residual blocks: 84 x 84 images become 5 x 5 maps of 640 channels.

    DropBlock (on the last two blocks) is off by default, as in the authors' runs; the paper's text says it is used.
    """

    def __init__(
        self, channels: tuple[int, int, int, int] = WIDE, *, last_pool: bool = True, drop_rate: float = 0.0
    ) -> None:
        super().__init__()
        self.d = channels[-1]
        self.map_scale = math.sqrt(self.d)
        """Needed for stable training (SM, Hyperparameters)."""
        self.last_pool, self.stride = last_pool, 16 if last_pool else 8
        widths = (3, *channels)
        self.blocks = nn.Sequential(
            *(
                ResidualBlock(
                    widths[i],
                    widths[i + 1],
                    pool=i < 3 or last_pool,
                    drop_rate=drop_rate if i >= 2 else 0.0,
                    drop_size=5,
                )
                for i in range(4)
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, H // stride, W // stride)."""
        maps: Tensor = self.blocks(images)
        return maps
