"""Stages: a network learns another network's maps, one stage after another."""

from pathlib import Path

import numpy as np
import torch
from lessons.stages import learn_stage, learn_stages
from lessons.teacher import record_views
from torch import nn

from frn.backbones.litenet import InvertedResidual
from tests.teaching.colours import IMAGES, Colours, network


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
    stored = [part[:4] for part in record_views(Colours(), IMAGES, tmp_path, 0, lambda done, total: None)]
    model, backbone = network()
    before = {name: value.clone() for name, value in model.backbone.state_dict().items()}
    lines: list[str] = []
    learn_stages(backbone, stored, (1, 1, 1), lines.append)
    after = model.backbone.state_dict()
    assert not [name for name, value in before.items() if name.endswith("weight") and torch.equal(value, after[name])]
    assert not any(block.training for block in backbone.blocks.children())
    assert lines == ["stage 1 of 3", "stage 2 of 3", "stage 3 of 3"]
