"""ResNet-12 (supplement, Network Backbones): four residual blocks of three convolutions, 64-160-320-640 channels."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones.backbone import Backbone


class ResidualBlock(nn.Module):
    """Three convolutions with a 1 x 1 shortcut, then LeakyReLU(0.1) and 2 x 2 max-pooling."""

    def __init__(self, channels_in: int, channels_out: int, *, pool: bool) -> None:
        super().__init__()

        def normed(channels: int, side: int) -> nn.Sequential:
            convolution = nn.Conv2d(channels, channels_out, side, padding=side // 2, bias=False)
            return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

        self.conv1 = normed(channels_in, 3)
        self.conv2 = normed(channels_out, 3)
        self.conv3 = normed(channels_out, 3)
        self.shortcut = normed(channels_in, 1)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        """Map (b, channels_in, h, w) to (b, channels_out, h // 2, w // 2), or keep h and w without pooling."""
        y = self.conv3(_activated(self.conv2(_activated(self.conv1(x))))) + self.shortcut(x)
        # LeakyReLU is increasing and commutes with max-pooling: pool first, then activate a quarter of the values.
        return _activated(F.max_pool2d(y, 2) if self.pool else y)


def _activated(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1, inplace=x.dtype is not torch.bfloat16)  # in place, bf16 takes twice as long on a CPU


WIDE = (64, 160, 320, 640)  # channels of the four blocks, as in the paper
SMALL = (32, 64, 128, 256)  # a sixth of the parameters and operations: can be trained and used on two processor cores
PATCHES = (64, 128, 256)
"""Three blocks after a stem of 4 x 4 patches: 84 x 84 images take little more work than 32 x 32 images with `SMALL`."""
WIDE_PATCHES = (96, 192, 384)  # the same with twice the parameters and operations


class ResNet12(Backbone):
    """Residual blocks, four in the paper: 84 x 84 images become 5 x 5 maps of 640 channels.

    A stem turns each s x s patch into one location of 3 s^2 channels, which replaces the most expensive blocks.

    The network has no DropBlock, as in the authors' runs, although the paper's text mentions it.
    """

    def __init__(self, channels: tuple[int, ...] = WIDE, *, stem: int = 1, last_pool: bool = True) -> None:
        super().__init__()
        self.d = channels[-1]
        self.map_scale = math.sqrt(self.d)  # needed for stable training (supplement, Hyperparameters)
        last = len(channels) - 1
        self.stem, self.stride = stem, stem * 2 ** (last + last_pool)
        widths = (3 * stem**2, *channels)
        self.blocks = nn.Sequential(
            *(ResidualBlock(*widths[i : i + 2], pool=i < last or last_pool) for i in range(len(channels)))
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, H // stride, W // stride)."""
        return self.blocks(F.pixel_unshuffle(images, self.stem) if self.stem > 1 else images)
