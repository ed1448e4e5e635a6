"""Image decoder: a reversed backbone that turns feature maps back into pixels (supplement, Image Decoder).

Shape letters: b maps, r locations on a square grid, d channels, S pixels per side.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, NARROW = 64, 16
"""Number of channels in the last residual block, for wide backbones (ResNet-12) and for narrow ones (Conv-4)."""


class UpBlock(nn.Module):
    """Adds two branches and applies ELU; each branch doubles height and width by a transposed convolution."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()

        def up() -> nn.Sequential:
            doubling = nn.ConvTranspose2d(channels_in, channels_out, 4, stride=2, padding=1, bias=False)
            return nn.Sequential(doubling, nn.BatchNorm2d(channels_out))

        self.shortcut = up()
        self.main = nn.Sequential(
            nn.Conv2d(channels_in, channels_in, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_in),
            nn.ReLU(inplace=True),
            *up(),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (b, channels_in, h, w) to (b, channels_out, 2h, 2w)."""
        return F.elu(self.main(x) + self.shortcut(x), inplace=True)


class Decoder(nn.Module):
    """A block per pooling layer of the backbone, then a bilinear resize to S x S and a projection to three channels."""

    def __init__(self, d: int, widths: tuple[int, ...], *, grid: int, size: int) -> None:
        """Build layers for maps of d channels and `grid` locations per side, with one block for each of `widths`."""
        super().__init__()
        self.d, self.grid, self.size = d, grid, size
        channels = (d, *widths)
        self.blocks = nn.Sequential(*(UpBlock(*pair) for pair in zip(channels, widths, strict=False)))
        self.project = nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        """Decode feature maps (b, r, d) to images (b, 3, S, S) in [-1, 1]."""
        x = self.blocks(maps.mT.unflatten(2, (self.grid, self.grid)))
        if x.shape[-1] != self.size:
            x = F.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        return self.project(x).tanh()


def build_decoder(d: int, *, grid: int, size: int) -> Decoder:
    """Return an untrained decoder from maps of d channels and `grid` locations per side to `size` pixels per side.

    For ResNet-12 at 84 pixels this is the paper's decoder: 640 x 5 x 5 to 512 x 10 x 10, then halving the channels down
    to 64 x 80 x 80. The decoder for Conv-4 is a quarter as wide, and never wider than the feature maps.
    """
    width = WIDTH if d > WIDTH else NARROW
    doublings = int(math.log2(size / grid))
    widths = tuple(min(d, width * 2**remaining) for remaining in reversed(range(doublings)))
    return Decoder(d, widths, grid=grid, size=size)
