"""Stages: a network learns another network's maps, one stage after another."""

from pathlib import Path

import numpy as np
import torch
from lessons.stages import SIDE, StageTeacher, learn_stage, learn_stages, record_stages
from torch import Tensor, nn

from frn.backbones.litenet import InvertedResidual
from frn.data.pixel_cache import ConcatImages
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from tests.frn.training.tiny import sampled

IMAGES = ConcatImages((sampled(2, 0, 48),))


class Colours(StageTeacher):
    """Maps of colour channels, mixed at random, at the sizes of LiteNet's stages."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        generator = torch.Generator().manual_seed(0)
        self.mixtures = [torch.randn(3, c, generator=generator) for c in (40, 112, 320)]

    def forward(self, images: Tensor) -> list[Tensor]:
        sides = [images.shape[-1] // stride for stride in (8, 16, 32)]
        pooled = [nn.functional.adaptive_avg_pool2d(images, side).permute(0, 2, 3, 1) for side in sides]
        return [(4 * maps @ mixture).sin() for maps, mixture in zip(pooled, self.mixtures, strict=True)]


def test_stored_maps_are_those_of_the_stored_views(tmp_path: Path) -> None:
    views, *maps = record_stages(Colours(), IMAGES, tmp_path, 0, lambda done, total: None)
    again = Colours()(torch.from_numpy(views[:3] / np.float32(255)).permute(0, 3, 1, 2))
    assert views.shape == (len(IMAGES), SIDE, SIDE, 3)
    for stored, expected in zip(maps, again, strict=True):
        np.testing.assert_allclose(stored[:3], expected.numpy(), atol=2e-3)


def test_stage_reproduces_maps_better_with_more_steps() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.standard_normal((24, 6, 6, 8)).astype(np.float16)
    target = np.tanh(inputs[:, ::2, ::2] @ generator.standard_normal((8, 12))).astype(np.float16)
    similar = []
    for steps in (2, 150):
        torch.manual_seed(0)
        stage = nn.Sequential(InvertedResidual(8, 12, 3, expand=6, stride=2, full=False))
        learn_stage(stage, inputs, target, steps, 12, lambda line: None)
        with torch.inference_mode():
            found = stage(torch.from_numpy(np.float32(inputs)).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        similar.append(torch.cosine_similarity(found, torch.from_numpy(np.float32(target)), dim=-1).mean().item())
    assert similar[1] > similar[0] + 0.2, similar


def test_every_stage_of_litenet_is_trained_and_left_in_evaluation_mode(tmp_path: Path) -> None:
    stored = [part[:4] for part in record_stages(Colours(), IMAGES, tmp_path, 0, lambda done, total: None)]
    torch.manual_seed(0)
    size = EvaluationTransform(size=SIDE)
    model = Model(ModelConfig(backbone="litenet", method="frn", transform=size, mean=(0.5,) * 3, std=(0.5,) * 3))
    before = {name: value.clone() for name, value in model.backbone.state_dict().items()}
    lines: list[str] = []
    learn_stages(model, stored, (1, 1, 1), lines.append)
    after = model.backbone.state_dict()
    assert not [name for name, value in before.items() if name.endswith("weight") and torch.equal(value, after[name])]
    assert not any(block.training for block in model.backbone.get_submodule("blocks").children())
    assert lines == ["stage 1 of 3", "stage 2 of 3", "stage 3 of 3"]
