"""The whole network learns from the teacher's outputs and from FRN episodes, so that the closed form fits its maps."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.backbones.litenet import LiteNet
from frn.data.batch_augmentation import augment
from frn.data.pixel_cache import ConcatImages
from frn.models.model import Model, save_model
from frn.system.precision import autocast, keep_freed_memory
from frn.training.runs.run import RunFolder, RunResult, RunSettings, TrainingRun
from lessons.matching import CLIP, Whitening, move_average, neighbour_divergence
from lessons.stages import SAMPLE, STAGES
from lessons.teacher import VIEW, Stored, to_images, to_tensor

STEPS = 100
"""Steps of an epoch."""
RATE, HEAD_RATE = 1.5e-3, 5.0
"""Highest learning rate, and that of the head's lambda, rho and gamma relative to it."""
BATCH = 32
"""Stored views of a step."""
EPISODES = ((12, 1, 2), (9, 2, 2))
"""Way, shots and queries per class of every other step."""
NEIGHBOURS, MIDDLE, EPISODE = 0.25, 0.2, 0.7
"""Weights of the losses beside that of the last map."""


@dataclass
class Lesson:
    """Draws the photos of each step and computes its losses."""

    model: Model
    stored: Sequence[Stored]
    """Views, the teacher's maps of all stages, and its pooled features."""
    images: ConcatImages
    """All photos."""
    labelled: int
    """The number of data sets at their start that have labels."""
    seed: int
    middle: Whitening = field(init=False)
    last: Whitening = field(init=False)
    classes: list[list[NDArray[np.int64]]] = field(init=False)

    def __post_init__(self) -> None:
        self.middle, self.last = (Whitening(to_tensor(maps[:SAMPLE]).flatten(0, 2)) for maps in self.stored[2:4])
        self.classes, start = [], 0
        for part in self.images.parts[: self.labelled]:
            ends = start + np.cumsum(part.sizes)
            members = [np.arange(end - size, end) for end, size in zip(ends, part.sizes, strict=True)]
            enough = max(shot + queries for _, shot, queries in EPISODES)
            self.classes.append([each for each in members if len(each) >= enough])
            start += len(part)

    def losses(self, step: int) -> dict[str, Tensor]:
        """Return the losses of a step: an episode of fresh views, and a batch of stored ones."""
        generator = np.random.default_rng([self.seed, step])
        way, shot, queries = EPISODES[step % len(EPISODES)]
        classes = self.classes[generator.integers(len(self.classes))]
        chosen = generator.choice(len(classes), way, replace=False)
        photos = np.concatenate([generator.choice(classes[i], shot + queries, replace=False) for i in chosen])
        fresh = augment(*self.images.gather(photos), VIEW, generator) * 2 - 1
        rows = np.sort(generator.choice(len(self.stored[0]), min(BATCH, len(self.stored[0])), replace=False))
        middle, last, pooled = (to_tensor(each[rows]) for each in self.stored[2:])
        images = torch.cat([fresh, to_images(self.stored[0][rows])]).contiguous(memory_format=torch.channels_last)

        assert isinstance(self.model.backbone, LiteNet)
        blocks, split = self.model.backbone.blocks, STAGES[-1][0]
        between = blocks[:split](images)
        found = blocks[split:](between)
        ours = found[len(fresh) :].permute(0, 2, 3, 1)
        maps = found[: len(fresh)].flatten(2).mT
        maps = maps / maps.square().mean((1, 2), keepdim=True).sqrt() / self.model.backbone.map_scale
        episode = maps.unflatten(0, (way, shot + queries))
        logits = self.model.head(episode[:, :shot], episode[:, shot:].flatten(0, 1))
        return {
            "map": self.last.loss(ours, last),
            "middle": MIDDLE * self.middle.loss(between[len(fresh) :].permute(0, 2, 3, 1), middle),
            "neighbours": NEIGHBOURS * neighbour_divergence(ours.mean((1, 2)), pooled),
            "episode": EPISODE * F.cross_entropy(logits, torch.arange(way).repeat_interleave(queries)),
        }


def learn_whole(
    lesson: Lesson,
    out: Path,
    epochs: int,
    settings: RunSettings,
    *,
    report: Callable[[int, float], None] = lambda step, loss: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Train all stages together; `best.safetensors` in `out` has the running mean of the weights.

    Raises FrnError if the folder is in use.
    """
    keep_freed_memory()
    folder, model = RunFolder(out), lesson.model.train()
    folder.pixels = [part.checksum for part in lesson.images.parts]
    model.backbone.to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(model.backbone)
    weights = list(model.backbone.parameters())
    groups = [
        ([p for p in weights if p.ndim > 1], 0.02, 1.0),
        ([p for p in weights if p.ndim < 2], 0.0, 1.0),
        (list(model.head.parameters()), 0.0, HEAD_RATE),
    ]
    optimizer = torch.optim.AdamW(
        [{"params": params, "weight_decay": decay, "times": times} for params, decay, times in groups],
        lr=RATE,
        betas=(0.9, 0.99),
    )
    run = TrainingRun(folder, model, averaged, optimizer, {"epochs": epochs, "seed": lesson.seed}, settings)

    def take(step: int, steps: int) -> None:
        position = run.position.total_steps
        with autocast("cpu", settings.precision):
            losses = lesson.losses(position)
        loss = torch.stack([*losses.values()]).sum()
        rate = RATE * min(1, (position + 1) / 60) * 0.5 * (1 + math.cos(math.pi * position / (epochs * steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate * group["times"]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        move_average(averaged, model.backbone, position)
        told = {name: round(value.item(), 4) for name, value in losses.items()}
        folder.append_metrics(total_steps=position + 1, epoch=run.position.epoch + 1, loss=loss.item(), **told)
        report(position + 1, loss.item())

    ended = run.run_epochs(epochs, lambda: range(STEPS), take, stop)
    if ended.finished:
        model.backbone.load_state_dict(averaged.state_dict())
        save_model(model.eval(), folder.best, {**settings.facts, "steps": ended.position.total_steps})
    return ended
