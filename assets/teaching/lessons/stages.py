"""LiteNet's stages learn a teacher's stages, one after another.

The input of a stage is the output of the student's stages before it, so that a stage also corrects their errors.

Shape letters: n photos, b photos of a batch, S pixels of a side, (h, w) a map, c its channels.
"""

import copy
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.backbones.litenet import LiteNet
from frn.data.augmentation import Augmentation
from frn.data.batch_augmentation import augment
from frn.data.pixel_cache import ConcatImages
from frn.models.model import Model
from lessons.matching import CLIP, Whitening, move_average, unlike
from lessons.teacher_answers import BATCH, Classifier, Progress

SIDE = 160
"""Pixels of a side of a view."""
VIEW = Augmentation(size=SIDE, crop="resized", scale=(0.35, 1.0), jitter=0.25)
STAGES = ((0, 5), (5, 10), (10, 15))
"""First block of LiteNet in each stage, and the first one after it."""
INDICES = (2, 3, 4)
"""The teacher's maps that the stages reproduce, by timm's numbers."""
RATE, BATCHES = 4e-3, (32, 64, 96)
"""Highest learning rate, and photos in a batch of each stage."""
AVERAGING = 0.998
"""Fraction of the running mean of the weights that is kept in each step."""
SAMPLE = 2000
"""Number of photos on which the distribution of a map is estimated."""

Stored = NDArray[Any]


class StageTeacher(nn.Module):
    """The maps of a teacher's stages."""

    def __init__(self, teacher: Classifier) -> None:
        super().__init__()
        self.teacher = teacher.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the maps (b, h, w, c) of the stages of images (b, 3, S, S) in [0, 1]."""
        x = ((images - self.teacher.mean) / self.teacher.std).contiguous(memory_format=torch.channels_last)
        maps = self.teacher.net.forward_intermediates(x, indices=INDICES, intermediates_only=True)
        return [each.permute(0, 2, 3, 1) for each in maps]


@torch.inference_mode()
def record_stages(
    teacher: StageTeacher, images: ConcatImages, folder: Path, seed: int, progress: Progress
) -> list[Stored]:
    """Store a view of each photo, (n, S, S, 3) in grey levels, and its maps (n, h, w, c), in random order."""
    folder.mkdir(parents=True, exist_ok=True)
    n, stored = len(images), list[Stored]()
    order = np.random.default_rng(seed).permutation(n)
    for start in range(0, n, BATCH):
        rows = slice(start, min(n, start + BATCH))
        views = augment(*images.gather(order[rows]), VIEW, np.random.default_rng([seed, start])).mul(255).round()
        parts = [views.byte().permute(0, 2, 3, 1), *(told.half() for told in teacher(views / 255))]
        if not stored:
            for place, part in enumerate(parts):
                dtype = np.uint8 if place == 0 else np.float16
                file = folder / f"maps-{place}.npy"
                stored.append(np.lib.format.open_memmap(file, mode="w+", dtype=dtype, shape=(n, *part.shape[1:])))
        for maps, part in zip(stored, parts, strict=True):
            maps[rows] = part.numpy()
        progress(rows.stop, n)
    return stored


def learn_stages(
    model: Model, stored: Sequence[Stored], steps: Sequence[int], report: Callable[[str], None] = lambda line: None
) -> None:
    """Train the stages in turn for some steps each; `stored` are the views and the maps of all stages."""
    assert isinstance(model.backbone, LiteNet)
    blocks, inputs = model.backbone.blocks, stored[0]
    for place, ((first, end), target) in enumerate(zip(STAGES, stored[1:], strict=True)):
        stage = nn.Sequential(*blocks[first:end]).to(memory_format=torch.channels_last)
        report(f"stage {place + 1} of {len(STAGES)}")
        learn_stage(stage, inputs, target, steps[place], BATCHES[place], report)
        if target is not stored[-1]:
            inputs = _outputs(stage, inputs, np.empty(target.shape, np.float16))


def learn_stage(
    stage: nn.Sequential, inputs: Stored, target: Stored, steps: int, batch: int, report: Callable[[str], None]
) -> None:
    """Train a stage to reproduce maps; its weights and statistics become their running mean over the steps."""
    sample = _tensor(target[:SAMPLE]).flatten(0, 2)
    whitening = Whitening(sample)
    spread = whitening(sample).square().mean()
    last: Any = stage[-1].get_submodule("project.1")
    with torch.no_grad():  # at the start, the output has the mean and spread of the target
        last.weight.copy_(sample.std(0))
        last.bias.copy_(sample.mean(0))
    averaged = copy.deepcopy(stage)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.02)
    stage.train()
    for step in range(steps):
        rows = (np.arange(batch) + step * batch) % len(inputs)
        told, found = whitening(_tensor(target[rows])), whitening(stage(_images(inputs[rows])).permute(0, 2, 3, 1))
        loss = (found - told).square().mean() / spread + unlike(found, told)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 80) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(stage.parameters(), CLIP)
        optimizer.step()
        move_average(averaged, stage, min(AVERAGING, (1 + step) / (10 + step)))
        if (step + 1) % 100 == 0:
            report(f"step {step + 1}: loss {loss.item():.3f}")
    stage.load_state_dict(averaged.state_dict())
    stage.eval()


@torch.inference_mode()
def _outputs(stage: nn.Module, inputs: Stored, out: Stored) -> Stored:
    for start in range(0, len(inputs), BATCH):
        rows = slice(start, start + BATCH)
        out[rows] = stage(_images(inputs[rows])).permute(0, 2, 3, 1).half().numpy()
    return out


def _images(stored: Stored) -> Tensor:
    """Return views in [-1, 1], or maps, as tensors (b, c, h, w)."""
    x = _tensor(stored)
    return (x / 127.5 - 1 if stored.dtype == np.uint8 else x).permute(0, 3, 1, 2)


def _tensor(stored: Stored) -> Tensor:
    return torch.from_numpy(np.asarray(stored, dtype=np.float32))
