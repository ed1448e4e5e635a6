"""The teacher, and the views of photos that it and the student see.

Shape letters: b views, S pixels of a side, (h, w) a map, c its channels.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones.pretrained import TimmMaps, recipe
from frn.data.augmentation import Augmentation
from frn.data.batch_augmentation import augment
from frn.data.pixel_cache import ConcatImages
from frn.errors import FrnError
from frn.models.model import read_weights

VIEW = Augmentation(size=160, crop="resized", scale=(0.35, 1.0), jitter=0.25)
ENDS = ("1.0", "1.1", "2.0", "2.1", "3.0", "3.1", "3.2", "4.0", "4.2", "5.0", "5.1", "5.2", "5.3", "6.0")
"""Blocks of EfficientNet-Lite whose maps LiteNet's blocks reproduce; the first two of LiteNet together make one."""


class Teacher(nn.Module):
    """A frozen EfficientNet-Lite of timm."""

    mean: Tensor
    std: Tensor
    net: Any

    def __init__(self, name: str, file: Path, ratio: float = 1.0) -> None:
        """Load the weights from a file; `ratio` is the side of the teacher's images relative to the student's.

        Raises FrnError if the weights belong to a different network.
        """
        super().__init__()
        self.ratio = ratio
        source, _, network = name.partition(":")
        if source != "timm":
            raise FrnError(f"{name}: a teacher must be named timm:NAME")
        import timm

        how = recipe(name, file)
        self.register_buffer("mean", torch.tensor(how.mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(how.std).view(3, 1, 1))
        self.net = timm.create_model(network)
        try:
            self.net.load_state_dict(TimmMaps.renamed(network, read_weights(file), self.net))
        except RuntimeError as error:
            raise FrnError(f"{file}: does not belong to {name} ({str(error).splitlines()[-1].strip()})") from error
        self.requires_grad_(False).eval().to(memory_format=torch.channels_last)

    @torch.no_grad()
    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the maps (b, h, w, c) after the blocks `ENDS` at the student's locations, for images (b, 3, S, S)."""
        x = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        x, maps = self.net.bn1(self.net.conv_stem(x)), []
        for i, stage in enumerate(self.net.blocks):
            for j, block in enumerate(stage):
                x = block(x)
                if f"{i}.{j}" in ENDS:
                    maps.append(at_locations(x.permute(0, 2, 3, 1), images.shape[-1], self.ratio))
        return maps


def at_locations(maps: Tensor, side: int, ratio: float) -> Tensor:
    """Interpolate maps (b, h, h, c) of images of `side` pixels at the locations of a network that sees fewer pixels.

    Strides are centred on odd pixels, so location i of a map with a stride of s is centred on pixel s (i + 1) - 1.
    """
    if ratio == 1:
        return maps
    h, half = maps.shape[1], maps.shape[1] / side / 2  # of a pixel, in locations
    places = ((torch.arange(round(h / ratio)) + 1 - half) * ratio - 1 + half).clamp(0, h - 1)
    weights = (1 - (places[:, None] - torch.arange(h)).abs()).clamp(min=0)
    return torch.einsum("ih,jw,bhwc->bijc", weights, weights, maps)


class Photos:
    """Draws views of photos; a data set's share is the square root of its size."""

    def __init__(self, images: ConcatImages, side: int = VIEW.size, ratio: float = 1.0) -> None:
        """Keep the data sets; views have `side` pixels for the student and `ratio` times as many for the teacher."""
        self.images, self.side = images, side
        self.view = replace(VIEW, size=round(side * ratio))
        self.sizes = np.array([len(part) for part in images.parts])
        self.starts = self.sizes.cumsum() - self.sizes
        self.shares = self.sizes**0.5 / (self.sizes**0.5).sum()

    def draw(self, count: int, generator: np.random.Generator) -> Tensor:
        """Return views (count, 3, S, S) in [0, 1]."""
        sets = generator.choice(len(self.sizes), count, p=self.shares)
        return self.views(self.starts[sets] + generator.integers(self.sizes[sets]), generator)

    def views(self, places: Any, generator: np.random.Generator) -> Tensor:
        """Return a view (n, 3, S, S) of each of n photos."""
        return augment(*self.images.gather(places), self.view, generator)

    def seen(self, views: Tensor) -> Tensor:
        """Return views as the student sees them, a network with mean and std 0.5."""
        if views.shape[-1] != self.side:
            views = F.interpolate(views, (self.side, self.side), mode="bilinear", antialias=True)
        return (views * 2 - 1).contiguous(memory_format=torch.channels_last)
