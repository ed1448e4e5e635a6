"""LiteNet's stages learn a teacher's stages, one after another.

Each stage is a small regression problem, which takes far fewer photos than training the whole network at once (Wang et
al., Progressive Blockwise Knowledge Distillation, 2018). The input of a stage is the output of the student's stages
before it, so that a stage also corrects their errors.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from frn.backbones.litenet import LiteNet
from lessons.matching import CLIP, Whitening, move_average
from lessons.teacher import BATCH, Stored, to_images, to_tensor

STAGES = ((0, 5), (5, 10), (10, 15))
"""First block of LiteNet in each stage, and the first one after it."""
RATE, BATCHES = 4e-3, (32, 64, 96)
"""Highest learning rate, and photos in a batch of each stage."""
SAMPLE = 2000
"""Number of photos on which the distribution of a map is estimated."""


def learn_stages(
    network: LiteNet, stored: Sequence[Stored], steps: Sequence[int], report: Callable[[str], None] = lambda line: None
) -> None:
    """Train the stages in turn for some steps each; `stored` are views and the maps of all stages."""
    inputs = stored[0]
    for place, ((first, end), target) in enumerate(zip(STAGES, stored[1:4], strict=True)):
        stage = nn.Sequential(*network.blocks[first:end]).to(memory_format=torch.channels_last)
        report(f"stage {place + 1} of {len(STAGES)}")
        learn_stage(stage, inputs, target, steps[place], BATCHES[place], report)
        if place + 1 < len(STAGES):
            inputs = _outputs(stage, inputs, np.empty(target.shape, np.float16))


def learn_stage(
    stage: nn.Sequential, inputs: Stored, target: Stored, steps: int, batch: int, report: Callable[[str], None]
) -> None:
    """Train a stage to reproduce maps; its weights and statistics become their running mean over the steps."""
    sample = to_tensor(target[:SAMPLE]).flatten(0, 2)
    whitening = Whitening(sample)
    last: Any = stage[-1].get_submodule("project.1")
    with torch.no_grad():  # at the start, the output has the mean and spread of the target
        last.weight.copy_(sample.std(0))
        last.bias.copy_(sample.mean(0))
    averaged = copy.deepcopy(stage)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.02)
    stage.train()
    for step in range(steps):
        rows = (np.arange(batch) + step * batch) % len(inputs)
        loss = whitening.loss(stage(to_images(inputs[rows])).permute(0, 2, 3, 1), to_tensor(target[rows]))
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 80) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(stage.parameters(), CLIP)
        optimizer.step()
        move_average(averaged, stage, step)
        if (step + 1) % 100 == 0:
            report(f"step {step + 1}: loss {loss.item():.3f}")
    stage.load_state_dict(averaged.state_dict())
    stage.eval()


@torch.inference_mode()
def _outputs(stage: nn.Module, inputs: Stored, out: Stored) -> Stored:
    for start in range(0, len(inputs), BATCH):
        rows = slice(start, start + BATCH)
        out[rows] = stage(to_images(inputs[rows])).permute(0, 2, 3, 1).half().numpy()
    return out
