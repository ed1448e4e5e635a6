"""LiteNet's blocks learn a teacher's blocks, each on its own.

A block sees the teacher's map before its own, and learns the teacher's map after it. So every block is a small
regression problem with a target for each location, which takes far fewer photos than training the network at once
(Wang et al., Progressive Blockwise Knowledge Distillation, 2018). Later the blocks see the network's own maps, still
without gradients between blocks, and learn to make up for the errors of the blocks before them.
"""

import copy
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from frn.backbones.litenet import InvertedResidual, LiteNet
from lessons.matching import CLIP, Whitening, move_average
from lessons.teacher import Photos

RATE, OWN_RATE, BATCH = 4e-3, 2e-3, 32
"""Highest learning rates with the teacher's maps and with the network's own, and photos of a step."""
SAMPLE = 384  # number of photos on which the distributions of the teacher's maps are estimated


def sample_maps(teacher: nn.Module, photos: Photos, seed: int) -> list[Tensor]:
    """Return maps (n, h, w, c) of the teacher after all blocks."""
    generator = np.random.default_rng([seed, 1])
    batches = [teacher(photos.draw(BATCH, generator)) for _ in range(SAMPLE // BATCH)]
    return [torch.cat(maps) for maps in zip(*batches, strict=True)]


def learn_blocks(
    network: LiteNet,
    teacher: nn.Module,
    photos: Photos,
    steps: int,
    seed: int,
    report: Callable[[str], None] = lambda line: None,
    *,
    own: bool = False,
) -> None:
    """Train all blocks for some steps; weights and statistics become their running mean over the steps.

    A block sees the teacher's map before it or, with `own`, the network's.
    """
    network.to(memory_format=torch.channels_last).train()
    units = [nn.Sequential(*network.blocks[:2]), *network.blocks[2:]]
    maps = sample_maps(teacher, photos, seed)
    whitenings = [Whitening(each.flatten(0, 2)) for each in maps]
    if not own:
        for place, unit in enumerate(units):
            _start(unit, maps[place], maps[place - 1])
    averaged, highest = copy.deepcopy(network), OWN_RATE if own else RATE
    optimizer = torch.optim.AdamW(network.parameters(), lr=highest, betas=(0.9, 0.98), weight_decay=0.02)
    generator = np.random.default_rng([seed, 2 * own])
    for step in range(steps):
        views = photos.draw(BATCH, generator)
        x, targets = photos.seen(views), teacher(views)
        rate = highest * min(1, (step + 1) / 80) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        losses = []
        for unit, target, whitening in zip(units, targets, whitenings, strict=True):
            y = unit(x)
            loss = whitening.error(y.permute(0, 2, 3, 1), target)
            loss.backward()
            x = y.detach() if own else target.permute(0, 3, 1, 2)
            nn.utils.clip_grad_norm_(unit.parameters(), CLIP)
            losses.append(loss.item())
        optimizer.step()
        move_average(averaged, network, step)
        if step % 100 == 0 or step + 1 == steps:
            report(f"step {step + 1}: errors {' '.join(f'{loss:.2f}' for loss in losses)}")
    network.load_state_dict(averaged.state_dict())
    network.eval()


@torch.no_grad()
def _start(unit: nn.Module, after: Tensor, before: Tensor) -> None:
    """Give the output of a unit the mean and spread of what it learns: a map, or what a residual block adds to it."""
    block = unit[-1] if isinstance(unit, nn.Sequential) else unit
    assert isinstance(block, InvertedResidual)
    target = (after - before if block.residual else after).flatten(0, 2)
    last = block.parts[-1]
    assert isinstance(last, nn.Sequential)
    norm = last[-1]
    assert isinstance(norm, nn.BatchNorm2d)
    norm.weight.copy_(target.std(0))
    norm.bias.copy_(target.mean(0))
