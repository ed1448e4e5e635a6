"""The teaching loop: each step uses views of photos, the teachers' stored outputs for these photos, and an episode."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.backbones.compiled import compile_blocks
from frn.backbones.resnet12 import ResNet12
from frn.data.augmentation import Augmentation, Draw
from frn.data.batch_augmentation import crop_and_resize, jitter_colours
from frn.data.pixel_cache import ConcatImages
from frn.episodes import EpisodeShape, check_classes
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, save_model
from frn.system.precision import autocast, keep_freed_memory
from frn.training.losses import distillation_loss
from frn.training.runs.run import RunFolder, RunResult, RunSettings, TrainingRun
from frn.training.setup import describe_images
from lessons.matching import (
    CLIP,
    SOFTENED,
    Student,
    Whitening,
    neighbour_divergence,
    seen_through,
    unlike,
)
from lessons.refined_stem import refine_stem
from lessons.teacher_answers import Answers, Classifier, Progress, record_answers
from lessons.teaching_recipe import TeachingRecipe

SAMPLE = 3000
"""Number of photos on which the distribution of a teacher's features is estimated."""

Indices = NDArray[np.int64]


def start(recipe: TeachingRecipe, init: Model) -> Model:
    """Return the initial student, which computes the same as `init` but has the recipe's backbone and patches."""
    size = EvaluationTransform(size=recipe.evaluation_size, resize=recipe.evaluation_resize)
    config = ModelConfig(
        backbone=recipe.backbone, method="frn", last_pool=init.config.last_pool, transform=size,
        mean=init.config.mean, std=init.config.std,
    )  # fmt: skip
    model = Model(config)
    if isinstance(init.backbone, ResNet12) and isinstance(model.backbone, ResNet12):
        refine_stem(init.backbone, model.backbone)
    elif init.config.backbone == recipe.backbone:
        model.backbone.load_state_dict(init.backbone.state_dict())
    else:
        raise FrnError(f"{init.config.backbone} cannot be the start of {recipe.backbone}")
    model.head.load_state_dict(init.head.state_dict())
    return model


def teach(
    recipe: TeachingRecipe,
    images: ConcatImages,
    labelled: int,
    teacher: Classifier,
    own: Model,
    init: Model,
    out: Path,
    settings: RunSettings,
    *,
    report: Callable[[int, dict[str, float]], None] = lambda step, losses: None,
    progress: Progress = lambda done, total: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Teach a student; `best.safetensors` in `out` is a mixture of the student's initial and final weights.

    The images are square and of one size; the first `labelled` data sets have labels.

    Raises:
        FrnError: if the data do not fit the recipe, or the folder is in use.
    """
    keep_freed_memory()
    folder = RunFolder(out)
    lesson = _Lesson(recipe, images, labelled, settings)
    folder.pixels = [part.checksum for part in images.parts]
    with autocast("cpu", settings.precision):
        told = record_answers(teacher, images, len(images), out / "answers" / "teacher", progress)
        mine = record_answers(_asked(own), images, lesson.own_photos, out / "answers" / "own", progress)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        lesson.begin(teacher, told, mine, start(recipe, init))
    decides = {**asdict(recipe), "seed": settings.seed, "images": describe_images(images)}
    run = TrainingRun(folder, lesson.model, lesson.student, lesson.optimizer, decides, settings)

    def take(step: int, steps: int) -> None:
        losses = lesson.step(run.position.total_steps)
        folder.append_metrics(total_steps=run.position.total_steps + 1, epoch=run.position.epoch + 1, **losses)
        report(run.position.total_steps + 1, losses)

    ended = run.run_epochs(recipe.epochs, lambda: range(recipe.steps), take, stop)
    if ended.finished:
        result = start(recipe, init)
        learned = {"backbone": lesson.student.averaged, "head": lesson.model.head}
        for part, module in learned.items():
            taught = module.state_dict()
            for name, value in result.get_submodule(part).state_dict().items():
                if value.is_floating_point():
                    value.lerp_(taught[name], 1 - recipe.kept)
        save_model(result.eval(), folder.best, {**settings.facts, "steps": run.position.total_steps})
    return ended


def _asked(own: Model) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    side = own.config.transform.size

    def answer(images: Tensor) -> tuple[Tensor, Tensor]:
        maps = own.feature_maps(F.interpolate(images, (side, side), mode="bilinear", antialias=True))
        return maps, maps.mean(1)

    return answer


class _Lesson:
    """The data and the losses of the training steps."""

    def __init__(self, recipe: TeachingRecipe, images: ConcatImages, labelled: int, settings: RunSettings) -> None:
        self.recipe, self.images, self.settings = recipe, images, settings
        if labelled != len(recipe.episode_shares):
            raise FrnError(f"the recipe is for {len(recipe.episode_shares)} labelled data sets, not {labelled}")
        starts = [0, *np.cumsum([len(part) for part in images.parts]).tolist()]
        self.own_photos = starts[recipe.own_sets]
        shape = EpisodeShape(way=recipe.way, shot=1, queries=recipe.per_class - 1)
        self.classes: list[list[Indices]] = []
        for first, part in zip(starts, images.parts[:labelled], strict=False):
            check_classes(part.names, part.sizes, shape, where="a labelled data set", every_class=False)
            ends = first + np.cumsum(part.sizes)
            classes = [np.arange(end - size, end) for end, size in zip(ends, part.sizes, strict=True)]
            self.classes.append([members for members in classes if len(members) >= recipe.per_class])
        lengths = np.diff(starts).astype(float)
        roots = np.sqrt(lengths[labelled:])
        rest = (1 - sum(recipe.photo_shares)) * roots / roots.sum()
        self.chances = np.cumsum(np.repeat(np.concatenate([recipe.photo_shares, rest]) / lengths, np.diff(starts)))
        self.augmentation = Augmentation(size=recipe.size, crop="resized", scale=recipe.scale, jitter=recipe.jitter)

    def begin(self, teacher: Classifier, told: Answers, mine: Answers, model: Model) -> None:
        """Set the teachers and the student."""
        self.teacher, self.told, self.mine, self.model = teacher, told, mine, model
        chosen = np.sort(np.random.default_rng(0).choice(len(told.maps), min(SAMPLE, len(told.maps)), replace=False))
        self.whitening = Whitening(_tensor(told.maps[chosen]).flatten(0, 1))
        self.mean = _tensor(told.pooled[chosen]).mean(0)
        f, classes = told.pooled.shape[1], teacher.classify(self.mean[None]).shape[1]
        self.student = Student(model.backbone, model.d, told.maps.shape[2], f, classes, mine.maps.shape[2])
        if self.settings.compiled:
            compile_blocks(model.backbone)
        model.train()
        weights = [p for p in (*model.backbone.parameters(), *self.student.parameters()) if p.requires_grad]
        self.learned, rate = weights, self.recipe.learning_rate
        matrices, vectors = [p for p in weights if p.ndim > 1], [p for p in weights if p.ndim < 2]
        groups = [
            (matrices, self.recipe.weight_decay, 1.0),
            (vectors, 0.0, 1.0),
            (list(model.head.parameters()), 0.0, self.recipe.head_rate),
        ]
        self.optimizer = torch.optim.AdamW(
            [{"params": params, "weight_decay": decay, "times": times} for params, decay, times in groups],
            lr=rate,
            betas=(0.9, 0.98),
        )

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        share = step / (self.recipe.epochs * self.recipe.steps)
        risen = min(1.0, (share + 1e-3) / self.recipe.warm_up) if self.recipe.warm_up else 1.0
        return self.recipe.learning_rate * risen * 0.5 * (1 + math.cos(math.pi * share))

    def draw(self, generator: np.random.Generator) -> Indices:
        """Draw the photos of a step: an episode, class by class, then the batch."""
        recipe, shares = self.recipe, np.array(self.recipe.episode_shares)
        classes = self.classes[generator.choice(len(shares), p=shares / shares.sum())]
        chosen = generator.choice(len(classes), recipe.way, replace=False)
        episode = [generator.choice(classes[i], recipe.per_class, replace=False) for i in chosen]
        batch = np.searchsorted(self.chances, generator.random(recipe.batch) * self.chances[-1])
        return np.concatenate([*episode, batch.clip(max=len(self.chances) - 1)])

    def step(self, index: int) -> dict[str, float]:
        """Take an optimiser step and return its losses by name."""
        generator = np.random.default_rng([self.settings.seed, index])
        chosen = self.draw(generator)
        canvas, extents = self.images.gather(chosen)
        draw = self.augmentation.draw(extents, generator)
        images = torch.from_numpy(canvas).permute(0, 3, 1, 2)
        images = jitter_colours(crop_and_resize(images, extents, draw, self.recipe.size), draw)
        losses = self.losses(images, views(draw, extents), chosen, shot=1 + index % 2)
        weights = asdict(self.recipe.weights)
        loss = torch.stack([weights[name] * value for name, value in losses.items()]).sum()
        if not torch.isfinite(loss):
            raise FrnError(f"teaching diverged in step {index + 1}. Start again with a lower learning_rate.")
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at(index) * group["times"]
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.learned, CLIP)
        self.optimizer.step()
        self.student.average(self.model.backbone, min(self.recipe.averaging, (1 + index) / (10 + index)))
        return {"loss": round(loss.item(), 5), **{name: round(value.item(), 5) for name, value in losses.items()}}

    def losses(self, images: Tensor, under: Tensor, chosen: Indices, shot: int) -> dict[str, Tensor]:
        """Return all losses for views and their photos, named as in `Weights`."""
        student, recipe, episode = self.student, self.recipe, self.recipe.way * self.recipe.per_class
        scale = self.model.map_scale(self.model.head)
        with autocast("cpu", self.settings.precision):
            maps = self.model.feature_maps(images)
            pooled = maps.mean(1)
            told = student.maps(maps * scale), student.pooled(pooled * scale), student.classes(pooled * scale)
        side = math.isqrt(maps.shape[1])
        features = _tensor(self.told.pooled[chosen])
        halves = [slice(0, episode), slice(episode, None)]
        mine = np.flatnonzero(chosen < self.own_photos)
        own = maps.new_zeros(())
        if len(mine):
            seen = seen_through(_tensor(self.mine.maps[chosen[mine]]), under[mine], side)
            own = unlike(student.own(maps[mine]), seen) * len(mine) / len(chosen)
        return {
            "maps": unlike(told[0], self.whitening(seen_through(_tensor(self.told.maps[chosen]), under, side))),
            "pooled": unlike(told[1], features - self.mean),
            "classes": distillation_loss(told[2], self.teacher.classify(features), SOFTENED),
            "neighbours": torch.stack([neighbour_divergence(pooled[h], features[h]) for h in halves]).sum(),
            "own": own,
            "episodes": self.episode_loss(maps[:episode].unflatten(0, (recipe.way, recipe.per_class)), shot),
        }

    def episode_loss(self, episode: Tensor, shot: int) -> Tensor:
        """Return the cross-entropy of the queries in an episode's maps (way, photos, r, d)."""
        logits = self.model.head(episode[:, :shot], episode[:, shot:].flatten(0, 1))
        target = torch.arange(len(episode)).repeat_interleave(episode.shape[1] - shot)
        return F.cross_entropy(logits, target)


def views(draw: Draw, extents: Indices) -> Tensor:
    """Return the boxes and flips of a draw as affine maps (b, 2, 3) in photo coordinates [-1, 1]."""
    top, left, height, width = draw.boxes.T
    h, w = extents.T
    view = np.zeros((len(h), 2, 3), dtype=np.float32)
    view[:, 0, 0] = width / w * np.where(draw.flips, -1, 1)
    view[:, 0, 2] = (2 * left + width) / w - 1
    view[:, 1, 1] = height / h
    view[:, 1, 2] = (2 * top + height) / h - 1
    return torch.from_numpy(view)


def _tensor(stored: Sequence[float] | NDArray[np.float16]) -> Tensor:
    return torch.from_numpy(np.asarray(stored, dtype=np.float32))
