"""A teacher without weights, and a student that is small enough for tests."""

import torch
from lessons.teacher import Photos
from torch import Tensor, nn

from frn.backbones.litenet import LiteNet
from frn.data.pixel_cache import ConcatImages
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from tests.frn.training.tiny import sampled

PHOTOS = Photos(ConcatImages((sampled(4, 0, 48),)), side=64)


class Colours(nn.Module):
    """Maps of colour channels, mixed at random, at the sizes of the maps of LiteNet's blocks."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        channels = (24, 24, 40, 40, 80, 80, 80, 112, 112, 192, 192, 192, 192, 320)
        self.strides = (4, 4, 8, 8, *5 * (16,), *5 * (32,))
        self.mixtures = [torch.randn(3, c, generator=generator) for c in channels]

    def forward(self, images: Tensor) -> list[Tensor]:
        sides = [images.shape[-1] // stride for stride in self.strides]
        pooled = [nn.functional.adaptive_avg_pool2d(images, side).permute(0, 2, 3, 1) for side in sides]
        return [(4 * maps @ mixture).sin() for maps, mixture in zip(pooled, self.mixtures, strict=True)]


def network() -> tuple[Model, LiteNet]:
    torch.manual_seed(0)
    size = EvaluationTransform(size=64)
    model = Model(ModelConfig(backbone="litenet", method="frn", transform=size, mean=(0.5,) * 3, std=(0.5,) * 3))
    assert isinstance(model.backbone, LiteNet)
    return model, model.backbone
