"""A teacher without weights, and a student that is small enough for tests."""

import torch
from torch import Tensor, nn

from frn.backbones.litenet import LiteNet
from frn.data.pixel_cache import ConcatImages
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from tests.frn.training.tiny import sampled

IMAGES = ConcatImages((sampled(4, 0, 48),))


class Colours(nn.Module):
    """Maps of colour channels, mixed at random, at the sizes of LiteNet's stages."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.mixtures = [torch.randn(3, c, generator=generator) for c in (40, 112, 320)]
        self.asked = 0

    def forward(self, images: Tensor) -> list[Tensor]:
        self.asked += len(images)
        sides = [images.shape[-1] // stride for stride in (8, 16, 32)]
        pooled = [nn.functional.adaptive_avg_pool2d(images, side).permute(0, 2, 3, 1) for side in sides]
        maps = [(4 * maps @ mixture).sin() for maps, mixture in zip(pooled, self.mixtures, strict=True)]
        return [*maps, maps[-1].mean((1, 2))]


def network() -> tuple[Model, LiteNet]:
    torch.manual_seed(0)
    size = EvaluationTransform(size=64)
    model = Model(ModelConfig(backbone="litenet", method="frn", transform=size, mean=(0.5,) * 3, std=(0.5,) * 3))
    assert isinstance(model.backbone, LiteNet)
    return model, model.backbone
