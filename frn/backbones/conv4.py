"""Conv-4: four 3 x 3 convolutions of 64 channels (supplement, Network Backbones)."""

import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones.backbone import Backbone


class ConvBlock(nn.Module):
    """Convolution, BatchNorm, 2 x 2 max-pooling, ReLU.

    ReLU and max-pooling commute, and pooling first leaves a quarter of the values for the ReLU.
    """

    def __init__(self, channels_in: int, channels_out: int, *, pool: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(channels_out)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        """Map (b, channels_in, h, w) to (b, channels_out, h // 2, w // 2), or keep h and w without pooling."""
        x = self.norm(self.conv(x))
        return F.relu(F.max_pool2d(x, 2) if self.pool else x)


class Conv4(Backbone):
    """Four blocks of 64 channels: 84 x 84 images become 5 x 5 maps, 32 x 32 become 2 x 2.

    Without the last pooling a 32 x 32 image keeps a 4 x 4 map (r = 16) at no cost. The maps are not scaled: the authors
    scale only those of ResNet-12.
    """

    d = 64

    def __init__(self, *, last_pool: bool = True) -> None:
        super().__init__()
        self.stride = 16 if last_pool else 8
        pools = (True, True, True, last_pool)
        self.blocks = nn.Sequential(
            *(ConvBlock(3 if i == 0 else self.d, self.d, pool=pool) for i, pool in enumerate(pools))
        )

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, 64, H // stride, W // stride)."""
        return self.blocks(images)
