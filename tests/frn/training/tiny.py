"""Runs that are small enough for several in one test."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from frn.data.augmentation import Augmentation
from frn.data.pixel_cache import StoredImages
from frn.data.synthetic import draw_classes
from frn.episodes import EpisodeShape
from frn.images.transforms import EvaluationTransform
from frn.models.model import load_model
from frn.training.loop import StepReport, ValidationReport, train
from frn.training.presets import Preset, Schedule, find_preset
from frn.training.presets.preset import Pretraining, ValidationProtocol
from frn.training.runs.run import RunSettings

Objective = Literal["frn-pretrain", "average-pretrain"]

TINY = replace(
    find_preset("demo"),
    augmentation=Augmentation(size=16, crop="padded", padding=2),
    transform=EvaluationTransform(size=16),
    episode=EpisodeShape(way=4, shot=2, queries=2),
    schedule=Schedule(epochs=3, milestones=(2,)),
    validation=ValidationProtocol(every=1, episodes=20),
)


CLEAR: dict[str, Any] = {"augmentation": find_preset("demo").augmentation, "transform": find_preset("demo").transform}
"""Variant of a preset for the 32-pixel demo images, which learns in a few steps."""


@functools.cache
def sampled(classes: int, seed: int, side: int = 16) -> StoredImages:
    return draw_classes(classes, 12, size=side, seed=seed)


def quick(
    out: Path, preset: Preset = TINY, *, settings: RunSettings | None = None, resume: bool = False, **options: Any
) -> tuple[list[StepReport | ValidationReport], bool]:
    events: list[StepReport | ValidationReport] = []
    settings = replace(settings or RunSettings(), resume=resume)
    side = preset.transform.size
    ended = train(preset, sampled(8, 0, side), sampled(5, 1, side), out, settings, report=events.append, **options)
    return events, ended.finished


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_model(path).state_dict()


def assert_same(a: Path, b: Path) -> None:
    ours, theirs = weights(a), weights(b)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs), "weights differ"


def pretraining(objective: Objective = "frn-pretrain", *, every: int = 1, **changes: Any) -> Preset:
    changes.setdefault("method", "frn" if objective == "frn-pretrain" else "proto")
    validation = ValidationProtocol(every=every, episodes=20, shot=1)
    steps = Pretraining(batch=changes.pop("batch", 32))
    return replace(TINY, objective=objective, validation=validation, pretraining=steps, **changes)
