"""LiteNet: inverted residual blocks (Sandler et al., MobileNetV2, 2018) for photos of about 192 pixels on a processor.

The first expansions are full convolutions, which a processor computes faster than depthwise ones on large maps. As in
EfficientNet-Lite, there is no squeeze-and-excitation.
"""

import math

from torch import Tensor, nn

from frn.backbones.backbone import Backbone, with_unit_energy


def normed(channels_in: int, channels_out: int, side: int = 1, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution with a kernel of side x side, and its batch normalisation.

    With a stride of 2 the kernel is centred on odd rows and columns, as in TensorFlow, whose networks teach this one.
    """
    padding = side // 2 + 1 - stride
    convolution = nn.Conv2d(channels_in, channels_out, side, stride=stride, padding=padding, groups=groups, bias=False)
    more = [nn.ZeroPad2d((0, 1, 0, 1))] if stride == 2 else []
    return nn.Sequential(*more, convolution, nn.BatchNorm2d(channels_out))


class InvertedResidual(nn.Module):
    """Expand the channels, filter each of them alone, and project to few channels without an activation."""

    def __init__(self, channels_in: int, channels_out: int, side: int, *, expand: int, stride: int, full: bool) -> None:
        """Create the block; `full` merges expansion and filter into one full convolution."""
        super().__init__()
        wide = channels_in * expand
        if full:
            parts = [normed(channels_in, wide, side, stride=stride), nn.ReLU()]
        else:
            filters = normed(wide, wide, side, stride=stride, groups=wide)
            parts = [normed(channels_in, wide), nn.ReLU(), filters, nn.ReLU()]
        self.parts = nn.Sequential(*parts, normed(wide, channels_out))
        self.residual = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        """Map (b, channels_in, h, w) to (b, channels_out, h / stride, w / stride), rounded down."""
        y: Tensor = self.parts(x)
        return x + y if self.residual else y


STEM = 24  # channels after the first convolution, which halves the image
BLOCKS = (
    # channels, kernel, expansion, stride, full
    (24, 3, 2, 2, True), (24, 3, 4, 1, False), (40, 5, 6, 2, False), (40, 5, 4, 1, False),
    (80, 3, 6, 2, False), (80, 3, 6, 1, False), (80, 3, 6, 1, False), (112, 5, 6, 1, False), (112, 5, 6, 1, False),
    (192, 5, 6, 2, False), (192, 5, 6, 1, False), (192, 5, 6, 1, False), (192, 5, 6, 1, False), (320, 3, 6, 1, False),
)  # fmt: skip


class LiteNet(Backbone):
    """A convolution and 14 inverted residuals: 192 x 192 images become 6 x 6 maps of 320 channels."""

    def __init__(self, *, last_pool: bool = True) -> None:
        """Create the network; without `last_pool`, the last blocks keep the size of the map."""
        super().__init__()
        self.d = BLOCKS[-1][0]
        self.map_scale = math.sqrt(self.d)
        parts: list[nn.Module] = [nn.Sequential(*normed(3, STEM, 3, stride=2), nn.ReLU())]
        self.stride, channels_in = 2, STEM
        for place, (channels, side, expand, halving, full) in enumerate(BLOCKS):
            stride = halving if last_pool or place < 9 else 1  # position of the last block that halves the map
            parts.append(InvertedResidual(channels_in, channels, side, expand=expand, stride=stride, full=full))
            self.stride, channels_in = self.stride * stride, channels
        self.blocks = nn.Sequential(*parts)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w), each with a mean square of one."""
        maps = self.blocks(images)
        return with_unit_energy(maps)
