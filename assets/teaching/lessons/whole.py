"""The whole network learns from the teacher's maps and later from FRN episodes, so that the closed form fits its maps.

The photos of an episode come from one data set, so the mean and variance of their maps differ from those of other
photos. As soon as there are episodes, running statistics therefore normalise the maps in training too.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.backbones.backbone import with_unit_energy
from frn.backbones.litenet import LiteNet
from frn.data.pixel_cache import StoredImages
from frn.errors import FrnError
from frn.models.model import Model, save_model
from frn.system.precision import autocast, keep_freed_memory
from frn.training.runs.run import RunFolder, RunResult, RunSettings, TrainingRun
from lessons.blocks import sample_maps
from lessons.matching import CLIP, Whitening, move_average, neighbour_divergence
from lessons.teacher import Photos, seen

STEPS = 100
"""Steps of an epoch."""
RATE, HEAD_RATE, EPISODE_RATE = 1e-3, 2.0, 0.3
"""Highest learning rate, and relative to it those of the head's lambda, rho and gamma, and of steps with episodes."""
BATCH = 48
"""Views of a step, with those of its episode."""
FIRST, RAMP = 0.3, 0.1
"""Share of the steps before the first episode, and of those in which the weight of episodes rises."""
FOLLOWED = 0.01
"""How far running statistics move towards those of a batch."""
EPISODES = ((10, 1, 2), (7, 2, 2))
"""Way, shots and queries per class of every other step."""
BETWEEN, DISTANCE, NEIGHBOURS, EPISODE = 0.25, 0.5, 0.1, 0.7
"""Weights of the losses beside the error of the last map; `BETWEEN` counts for every block before the last."""


def episode_classes(images: StoredImages) -> list[NDArray[np.int64]]:
    """Return the places of the photos of each class that has enough for every kind of episode.

    Raises FrnError if there are too few classes for an episode.
    """
    way, enough = max(way for way, _, _ in EPISODES), max(shot + queries for _, shot, queries in EPISODES)
    ends = np.cumsum(images.sizes)
    members = [np.arange(end - size, end) for end, size in zip(ends, images.sizes, strict=True)]
    chosen = [each for each in members if len(each) >= enough]
    if len(chosen) < way:
        raise FrnError(f"episodes need {way} classes of at least {enough} photos, and it has {len(chosen)}")
    return chosen


@torch.no_grad()
def follow(norm: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
    """Move running statistics that are in use towards those of a batch (b, c, h, w), as a hook before the module."""
    if not norm.training:
        variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
        assert norm.running_mean is not None
        assert norm.running_var is not None
        norm.running_var.lerp_(variance + (mean - norm.running_mean).square(), FOLLOWED)
        norm.running_mean.lerp_(mean, FOLLOWED)


@dataclass
class Lesson:
    """Draws the photos of each step and computes its losses."""

    model: Model
    teacher: nn.Module
    photos: Photos
    labelled: int
    """The number of data sets at their start that have labels."""
    seed: int
    whitenings: list[Whitening] = field(init=False)
    classes: list[list[NDArray[np.int64]]] = field(init=False)
    norms: list[nn.BatchNorm2d] = field(init=False)

    def __post_init__(self) -> None:
        self.norms = [each for each in self.model.backbone.modules() if isinstance(each, nn.BatchNorm2d)]
        for norm in self.norms:
            norm.register_forward_pre_hook(follow)
        maps = sample_maps(self.teacher, self.photos, self.seed)
        self.whitenings = [Whitening(each.flatten(0, 2)) for each in maps]
        parts = self.photos.images.parts[: self.labelled]
        self.classes = [
            [start + places for places in episode_classes(part)]
            for part, start in zip(parts, self.photos.starts, strict=False)
        ]

    def losses(self, step: int, steps: int) -> dict[str, Tensor]:
        """Return the losses of one of `steps` steps: of the teacher's maps of all views, and of an episode."""
        generator = np.random.default_rng([self.seed, step])
        ramp = min(1.0, max(0.0, (step / steps - FIRST) / RAMP))
        way, shot, queries = EPISODES[step % len(EPISODES)]
        n = way * (shot + queries) if ramp else 0
        views = self.photos.draw(BATCH - n, generator)
        if n:
            classes = self.classes[generator.integers(len(self.classes))]
            chosen = generator.choice(len(classes), way, replace=False)
            photos = np.concatenate([generator.choice(classes[i], shot + queries, replace=False) for i in chosen])
            views = torch.cat([self.photos.views(photos, generator), views])
        told = self.teacher(views)

        for norm in self.norms:
            norm.train(n == 0)
        assert isinstance(self.model.backbone, LiteNet)
        x, found = seen(views), []
        for block in self.model.backbone.blocks:
            x = block(x)
            found.append(x.permute(0, 2, 3, 1))
        errors = [w.error(ours, theirs) for w, ours, theirs in zip(self.whitenings, found[1:], told, strict=True)]
        distance = self.whitenings[-1].distance(found[-1], told[-1])
        losses = {
            "map": errors[-1] + DISTANCE * distance,
            "between": BETWEEN * torch.stack(errors[:-1]).sum(),
            "neighbours": NEIGHBOURS * neighbour_divergence(*(maps.mean((1, 2)) for maps in (found[-1], told[-1]))),
        }
        if n:
            maps = with_unit_energy(x[:n]).flatten(2).mT / self.model.backbone.map_scale
            episode = maps.unflatten(0, (way, shot + queries))
            logits = self.model.head(episode[:, :shot], episode[:, shot:].flatten(0, 1))
            target = torch.arange(way).repeat_interleave(queries)
            losses["episode"] = EPISODE * ramp * F.cross_entropy(logits, target)
        return losses


def learn_whole(
    lesson: Lesson,
    out: Path,
    epochs: int,
    settings: RunSettings,
    *,
    report: Callable[[int, float], None] = lambda step, loss: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Train all blocks together; `best.safetensors` in `out` has the running mean of the weights.

    Raises FrnError if the folder is in use.
    """
    keep_freed_memory()
    folder, model = RunFolder(out), lesson.model.train()
    folder.pixels = [part.checksum for part in lesson.photos.images.parts]
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
            losses = lesson.losses(position, epochs * steps)
        loss = torch.stack([*losses.values()]).sum()
        rate = RATE * min(1, (position + 1) / 60) * 0.5 * (1 + math.cos(math.pi * position / (epochs * steps)))
        if "episode" in losses:
            rate *= EPISODE_RATE
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
