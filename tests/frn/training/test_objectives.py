"""The losses of a step: the auxiliary loss of each method, and the maps of classical pre-training."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from frn.episodes import EpisodeShape
from frn.heads import HEADS, has_auxiliary_loss
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.training.losses import AUX_WEIGHT, auxiliary_loss
from frn.training.objectives import EpisodicObjective, PretrainingObjective
from frn.training.presets import find_preset

PRESET = replace(find_preset("demo"), episode=EpisodeShape(way=3, shot=2, queries=4), aux="off")
DRAWN = np.arange(18).reshape(3, 6)


@pytest.mark.parametrize(("method", "whole"), [("frn", False), ("ctx", False), ("dsn", True)])
def test_the_auxiliary_loss_uses_the_vectors_of_the_method(method: str, whole: bool) -> None:
    """SM: DSN uses "the actual (normalized) support points", one whole map per image; FRN uses all locations."""
    model = Model(ModelConfig(backbone="conv4", method=method))
    maps = torch.randn(18, 25, 64, generator=torch.Generator().manual_seed(0))
    loss, logits, target = EpisodicObjective(replace(PRESET, aux="reference"), model, [6] * 3).score(model, maps, DRAWN)
    support = maps.unflatten(0, (3, 6))[:, :2]  # way, shot, r, d
    points = support.flatten(2) if whole else support.flatten(1, 2)
    points = points / points.norm()
    pairs = sum((points[i] @ points[j].T).square().sum() for i in range(3) for j in range(i))
    torch.testing.assert_close(loss, F.cross_entropy(logits, target) + AUX_WEIGHT * pairs)
    assert (pairs - auxiliary_loss(support)).abs() < 1e-6 or whole


def test_classical_pretraining_uses_undivided_maps() -> None:
    """The run in Table 9 uses FRN, whose maps are divided by 25, so a linear classifier would learn slowly."""
    preset = find_preset("mini-imagenet-resnet12-average")
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone=preset.backbone, method=preset.method)).eval()
    images = torch.rand(4, 3, 32, 32)
    seen = []
    objective = PretrainingObjective(replace(preset, pretraining=replace(preset.pretraining, batch=4)), model, [2, 2])
    assert isinstance(objective.head, torch.nn.Linear)
    objective.head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    with torch.no_grad():
        objective.score(model, model.feature_maps(images), np.arange(4))
        unscaled = model.backbone((images - model.mean) / model.std).mean((2, 3))
        scored = model.feature_maps(images).mean(1)
    torch.testing.assert_close(seen[0], unscaled, rtol=1e-4, atol=1e-5)
    assert seen[0].std() > 20 * scored.std()  # sqrt(640) = 25.3; FRN itself is scored on divided maps


def test_methods_of_the_paper_and_on_its_code_have_the_auxiliary_loss_by_default() -> None:
    names = {name for name in HEADS if has_auxiliary_loss(name)}
    assert names == {"frn", "frn-tdm", "dsn", "ctx", "srm", "lccrn"}
