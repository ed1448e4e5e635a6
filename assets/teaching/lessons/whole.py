"""The whole network learns from the teacher's maps and later from FRN episodes, so that the closed form fits its maps.

The photos of an episode come from one data set, so the mean and variance of their maps differ from those of other
photos. In a stage with episodes, running statistics therefore normalise the maps in training too.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum, auto
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
from lessons.matching import CLIP, MuonAdamW, Whitening, move_average, neighbour_divergence
from lessons.teacher import Photos

STEPS, BATCH = 100, 80  # steps of an epoch, and views of a step with those of its episode
HEAD_RATE, RAMP = 2.0, 0.1  # relative learning rate of the head, and share of the steps in which episodes gain weight
FOLLOWED = 0.01  # how far running statistics move towards those of a batch
EPISODES = ((1, 2), (2, 2))  # shots and queries per class of every other step
BETWEEN, DISTANCE, NEIGHBOURS = 0.25, 0.5, 0.1
"""Weights of the losses beside the error of the last map; `BETWEEN` counts for every block before the last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """How the whole network is taught for some epochs; it ends with the mean of its seeds' networks."""

    epochs: int
    rate: float  # highest learning rate
    share: float = 0.0  # share of the views that are of an episode
    weight: float = 0.0  # weight of the episode's loss
    seeds: tuple[int, ...] = (0,)  # added to ten times the seed of the call; others see different views
    mixed: bool = False  # whether the network before the stage is part of the mean too


class StageName(StrEnum):
    """Choices of `teach.py --stage`."""

    MAPS = auto()
    EPISODES = auto()
    FURTHER = auto()
    VARIED = auto()


STAGES: dict[str, Stage] = {
    "maps": Stage(epochs=6, rate=1e-3),
    "episodes": Stage(epochs=9, rate=3e-4, share=0.75, weight=0.7, seeds=(1, 2, 3)),
    "further": Stage(epochs=9, rate=3e-4, share=0.75, weight=0.7, seeds=(4,), mixed=True),
    "varied": Stage(epochs=6, rate=4e-4, share=0.3, weight=0.4, seeds=(5,), mixed=True),
}
"""The stages that `frn-photo` went through after its blocks. With many views of episodes, 7e-4 was too high."""


@torch.no_grad()
def mean_of(models: Sequence[Model]) -> Model:
    """Return the mean of the weights and running statistics of models (Wortsman et al., Model soups, 2022)."""
    mean, states = copy.deepcopy(models[0]), [model.state_dict() for model in models]
    for name, value in mean.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.stack([state[name] for state in states]).mean(0))
    mean.record = {**mean.record, "mean_of": [model.record for model in models]}
    return mean


def episode_classes(images: StoredImages) -> list[NDArray[np.int64]]:
    """Return the places of the photos of each class that has enough for every kind of episode.

    Raises FrnError if there are too few classes for an episode.
    """
    enough = max(map(sum, EPISODES))
    ends = np.cumsum(images.sizes)
    members = [np.arange(end - size, end) for end, size in zip(ends, images.sizes, strict=True)]
    chosen = [each for each in members if len(each) >= enough]
    if len(chosen) < 2:
        raise FrnError(f"episodes need two classes of at least {enough} photos, and it has {len(chosen)}")
    return chosen


@torch.no_grad()
def follow(norm: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
    """Move running statistics that are in use towards those of a batch (b, c, h, w), as a hook before the module."""
    if not norm.training:
        variance, mean = torch.var_mean(inputs[0].float(), (0, 2, 3))  # which may be in bf16
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
    shares: Sequence[float]  # shares of the episodes that the first data sets have, those with labels
    stage: Stage
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
        parts = self.photos.images.parts[: len(self.shares)]
        self.classes = [
            [start + places for places in episode_classes(part)]
            for part, start in zip(parts, self.photos.starts, strict=False)
        ]

    def losses(self, step: int, steps: int) -> dict[str, Tensor]:
        """Return the losses of one of `steps` steps: of the teacher's maps of all views, and of an episode."""
        generator = np.random.default_rng([self.seed, step])
        shot, queries = EPISODES[step % len(EPISODES)]
        classes = self.classes[generator.choice(len(self.classes), p=np.divide(self.shares, sum(self.shares)))]
        way = min(len(classes), round(BATCH * self.stage.share / (shot + queries)))
        n = way * (shot + queries)
        views = self.photos.draw(BATCH - n, generator)
        if n:
            chosen = generator.choice(len(classes), way, replace=False)
            photos = np.concatenate([generator.choice(classes[i], shot + queries, replace=False) for i in chosen])
            views = torch.cat([self.photos.views(photos, generator), views])
        targets = self.teacher(views)

        for norm in self.norms:
            norm.train(n == 0)
        assert isinstance(self.model.backbone, LiteNet)
        x, outputs = self.photos.seen(views), []
        for block in self.model.backbone.blocks:
            x = block(x)
            outputs.append(x.permute(0, 2, 3, 1))
        errors = [w.error(ours, theirs) for w, ours, theirs in zip(self.whitenings, outputs[1:], targets, strict=True)]
        distance = self.whitenings[-1].distance(outputs[-1], targets[-1])
        pooled = (maps.mean((1, 2)) for maps in (outputs[-1], targets[-1]))
        losses = {
            "map": errors[-1] + DISTANCE * distance,
            "between": BETWEEN * torch.stack(errors[:-1]).sum(),
            "neighbours": NEIGHBOURS * neighbour_divergence(*pooled),
        }
        if n:
            maps = with_unit_energy(x[:n]).flatten(2).mT / self.model.backbone.map_scale
            episode = maps.unflatten(0, (way, shot + queries))
            logits = self.model.head(episode[:, :shot], episode[:, shot:].flatten(0, 1))
            target = torch.arange(way).repeat_interleave(queries)
            losses["episode"] = self.stage.weight * min(1.0, step / steps / RAMP) * F.cross_entropy(logits, target)
        return losses


def learn_whole(
    lesson: Lesson,
    out: Path,
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
    weights, stage = list(model.backbone.parameters()), lesson.stage
    pointwise = [p for p in weights if p.ndim == 4 and p.shape[2:] == (1, 1)]
    groups = [
        {"params": pointwise, "weight_decay": 0.02, "times": 1.0, "muon": True},
        {"params": [p for p in weights if p.ndim == 4 and p.shape[2:] != (1, 1)], "weight_decay": 0.02, "times": 1.0},
        {"params": [p for p in weights if p.ndim < 4], "weight_decay": 0.0, "times": 1.0},
        {"params": list(model.head.parameters()), "weight_decay": 0.0, "times": HEAD_RATE},
    ]
    optimizer = MuonAdamW(groups, lr=stage.rate, betas=(0.9, 0.99))
    run = TrainingRun(folder, model, averaged, optimizer, {**asdict(stage), "seed": lesson.seed}, settings)

    def take(step: int, steps: int) -> None:
        position, last = run.position.total_steps, stage.epochs * steps
        with autocast("cpu", settings.precision):
            losses = lesson.losses(position, last)
        loss = torch.stack([*losses.values()]).sum()
        rate = stage.rate * min(1, (position + 1) / 60) * 0.5 * (1 + math.cos(math.pi * position / last))
        for group in optimizer.param_groups:
            group["lr"] = rate * group["times"]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        move_average(averaged, model.backbone, position)
        parts = {name: round(value.item(), 4) for name, value in losses.items()}
        folder.append_metrics(total_steps=position + 1, epoch=run.position.epoch + 1, loss=loss.item(), **parts)
        report(position + 1, loss.item())

    ended = run.run_epochs(stage.epochs, lambda: range(STEPS), take, stop)
    if ended.finished:
        model.backbone.load_state_dict(averaged.state_dict())
        save_model(model.eval(), folder.best, {**settings.facts, "steps": ended.position.total_steps})
    return ended
