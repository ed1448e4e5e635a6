"""The teacher, and the views of photos that it and the student see.

Shape letters: b views, S pixels of a side, (h, w) a map, c its channels.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
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

    def __init__(self, name: str, file: Path) -> None:
        """Load the weights from a file. Raises FrnError if they belong to a different network."""
        super().__init__()
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
        """Return the maps (b, h, w, c) after the blocks `ENDS` for images (b, 3, S, S)."""
        x = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        x, maps = self.net.bn1(self.net.conv_stem(x)), []
        for i, stage in enumerate(self.net.blocks):
            for j, block in enumerate(stage):
                x = block(x)
                if f"{i}.{j}" in ENDS:
                    maps.append(x.permute(0, 2, 3, 1))
        return maps


class Photos:
    """Draws views of photos; a data set's share is the square root of its size."""

    def __init__(self, images: ConcatImages, side: int = VIEW.size) -> None:
        """Keep the data sets; views have `side` pixels."""
        self.images, self.view = images, replace(VIEW, size=side)
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
        return (views * 2 - 1).contiguous(memory_format=torch.channels_last)
