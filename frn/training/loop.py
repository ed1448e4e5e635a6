"""The training loop: one forward pass per episode, validation on cached features, checkpoints that survive a kill."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from frn.data.cache import StoredImages
from frn.data.concat import ConcatImages
from frn.data.transforms import augment
from frn.episodes import Episode, EpisodeShape, check_classes
from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy
from frn.evaluation.episodes import evaluate_episodes
from frn.evaluation.features import extract_features
from frn.heads.frn import FRNHead
from frn.model import Model, save_model
from frn.model_file import ModelConfig
from frn.numerics import autocast, keep_freed_memory
from frn.ridge.tuning import TUNING_EPISODES, TuningEpisode, tune
from frn.training.presets import Preset, Schedule
from frn.training.run import Run, Settings, Trained
from frn.training.run_folder import RunFolder
from frn.training.stages import build_stage

VALIDATION_SHAPE = EpisodeShape(way=5, shot=5, queries=16)
"""Validation is 5-way with 16 queries, at the shot of training (facts: authors' trainer)."""

DESCRIPTION = ("about", "published")
"""What a preset says of itself that decides nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step has been taken: an episode, or a batch in pre-training."""

    epoch: int
    step: int
    steps_in_epoch: int
    loss: float
    accuracy: float
    """Share of its queries (or images) that were right, in percent."""
    trouble: str = ""
    """What has gone wrong with the head, if anything has."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The model has been validated after an epoch."""

    epoch: int
    accuracy: Accuracy
    is_best: bool


def train(
    preset: Preset,
    images: StoredImages | ConcatImages,
    val_images: StoredImages | None,
    out: Path,
    settings: Settings,
    *,
    resume: bool = False,
    init: Model | None = None,
    facts: dict[str, object] | None = None,
    report: Callable[[Step | Validation], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train a model by a preset; `best.safetensors` in `out` is the result.

    Args:
        preset: what to do.
        images: training images, of one data set or of several.
        val_images: images of the preset's `val_split` under its transform; without any, the last weights are the
            result.
        out: the run's folder.
        settings: how to do it.
        resume: continue the run in `out`.
        init: start from this model's weights instead of random ones.
        facts: what else the model's record should say (data set, split, ...).
        report: called after every episode and validation.
        stop: asked after every episode; True saves and returns.

    Raises:
        FrnError: if the classes cannot serve the episodes, the folder is taken or cannot be written, or the loss
            stops being finite.
    """
    keep_freed_memory()
    trainer = _Trainer(preset, images, val_images, RunFolder(out), settings, report)
    trainer.begin(resume=resume, init=init, facts=facts or {})
    return trainer.go_on(stop)


class _Trainer:
    def __init__(
        self,
        preset: Preset,
        images: StoredImages | ConcatImages,
        val_images: StoredImages | None,
        folder: RunFolder,
        settings: Settings,
        report: Callable[[Step | Validation], None],
    ) -> None:
        self.preset = preset
        self.images = images
        self.val_images = val_images
        self.folder = folder
        self.settings = settings
        self.report = report
        self.val_shape = replace(VALIDATION_SHAPE, shot=preset.val_shot or preset.episode.shot)
        if preset.stage == "episodes":
            for part in images.parts:
                check_classes(part.names, part.sizes, preset.episode, where="the training split", every_class=False)
        if val_images is not None:
            self.val_shape = fit_shape(self.val_shape, val_images)
            check_classes(
                val_images.names, val_images.sizes, self.val_shape, where="the validation split", every_class=True
            )

    def begin(self, *, resume: bool, init: Model | None, facts: dict[str, object]) -> None:
        """Make or restore model, optimiser and folder."""
        settings = self.settings
        preset = {name: value for name, value in asdict(self.preset).items() if name not in DESCRIPTION}
        decides = {"seed": settings.seed, "precision": settings.precision, "images": describe(self.images), **preset}
        self.model = new_model(self.preset, settings.seed, init).to(settings.device)
        self.model.record = {"seed": settings.seed, **facts}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.stage = build_stage(self.preset, self.model, self.images.sizes).to(settings.device)
        if init and not resume and self.preset.stage == "episodes" and self.introduces(init):
            self.introduce()
        self.optimizer = build_optimizer([*self.model.parameters(), *self.stage.parameters()], self.preset.schedule)
        self.run = Run(self.folder, self.model, self.stage, self.optimizer, decides, settings, resume=resume)
        self.place = self.run.place

    def introduces(self, init: Model) -> bool:
        """Whether the head is introduced to the backbone: after another method's training, or if the preset says so."""
        return self.preset.tuned_start or init.config.method != self.preset.method

    def introduce(self) -> None:
        """Let an FRN head begin with what suits a backbone that was trained otherwise, by the first episodes.

        At the small rates of episodes after pre-training, alpha and gamma would take most of the run to get there.
        """
        if not isinstance(self.model.head, FRNHead):
            return
        shape = self.preset.episode
        first = self.stage.epoch([part.sizes for part in self.images.parts], seed=self.settings.seed, epoch=0)
        trials = []
        self.model.eval()
        with torch.inference_mode():
            for index, drawn in enumerate(first[:TUNING_EPISODES]):
                maps = self.feature_maps(drawn, np.random.default_rng([self.settings.seed, 0, index, 1]))
                episode = maps.unflatten(0, (shape.way, shape.per_class)).float().cpu().numpy()
                trials.append(TuningEpisode.split(episode, shape.shot))
        self.model.head.set_parameters(tune(trials))
        fix_regularisers(self.model, self.preset)

    def go_on(self, stop: Callable[[], bool]) -> Trained:
        """Train until the schedule ends or `stop` says so."""
        return self.run.go_on(self.preset.schedule.epochs, self.draw, self.train_on, stop, self.validate_if_due)

    def draw(self) -> list[Episode]:
        """The steps of this epoch."""
        self.model.train()
        sets = [part.sizes for part in self.images.parts]
        return self.stage.epoch(sets, seed=self.settings.seed, epoch=self.place.epoch)

    def train_on(self, drawn: Episode, steps_in_epoch: int) -> None:
        """Take one optimiser step on one episode, or one batch."""
        place, settings = self.place, self.settings
        rate = self.preset.schedule.learning_rate_at(place.epoch, place.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        generator = np.random.default_rng([settings.seed, place.epoch, place.step, 1])
        maps = self.feature_maps(drawn, generator)
        loss, logits, target = self.stage.score(self.model, maps, drawn)
        value = loss.item()
        if not np.isfinite(value):
            raise FrnError(
                f"the loss became {value} in epoch {place.epoch + 1}, episode {place.step + 1}. Lower the learning "
                f"rate, or use --precision fp32; {self.folder.last} holds earlier weights."
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        accuracy = 100 * (logits.argmax(1) == target).float().mean().item()
        self.folder.append_metrics(
            total_steps=place.total_steps + 1,
            epoch=place.epoch + 1,
            loss=round(value, 5),
            accuracy=round(accuracy, 3),
            learning_rate=rate,
            **head_scalars(self.model),
        )
        trouble = self.model.head.trouble() if isinstance(self.model.head, FRNHead) else ""
        self.report(Step(place.epoch + 1, place.step + 1, steps_in_epoch, value, accuracy, trouble))

    def feature_maps(self, drawn: Episode, generator: np.random.Generator) -> Tensor:
        """Maps (images, r, d) of a step's images, augmented."""
        device = self.settings.device
        canvas, extents = self.images.gather(drawn.ravel())
        batch = augment(canvas, extents, self.preset.augmentation, generator, device)
        with autocast(device, self.settings.precision):
            maps: Tensor = self.model.feature_maps(batch)
        return maps

    def validate_if_due(self) -> None:
        """Validate after an epoch; keep the model if it is strictly better than every earlier one.

        Accuracy on the test split chooses nothing: there, and without any images, the last weights are kept.
        """
        place, schedule = self.place, self.preset.schedule
        last = place.epoch == schedule.epochs
        chooses = self.val_images is not None and self.preset.val_split == "val"
        if last and not chooses:
            self.save_best()
        if self.val_images is None or (place.epoch % self.preset.val_every and not last):
            return
        self.model.eval()
        maps = extract_features(
            self.model, self.val_images, precision=self.settings.precision, device=self.settings.device
        )
        accuracy = evaluate_episodes(
            self.model.head, maps, self.val_images.sizes, self.val_shape, episodes=self.preset.val_episodes, seed=0
        )
        is_best = chooses and accuracy.mean > place.best
        if is_best:
            place.best = accuracy.mean
            self.save_best(validation={"shape": str(self.val_shape), "accuracy": accuracy.mean, "ci95": accuracy.ci95})
        self.folder.append_metrics(
            total_steps=place.total_steps, epoch=place.epoch, val_accuracy=accuracy.mean, val_ci95=accuracy.ci95
        )
        self.report(Validation(place.epoch, accuracy, is_best))

    def save_best(self, **record: object) -> None:
        """Write the result so far, a plain model file."""
        place = {"epoch": self.place.epoch, "steps": self.place.total_steps}
        save_model(self.model, self.folder.best, {**place, **record})


def describe(images: StoredImages | ConcatImages) -> list[str]:
    """What tells data sets apart: how much is in each, and a checksum of the classes' names and sizes."""
    said = []
    for part in images.parts:
        classes = repr(sorted(zip(part.names, part.sizes, strict=True))).encode()
        said.append(
            f"{len(part.names)} classes of {sum(part.sizes)} images ({hashlib.sha256(classes).hexdigest()[:8]})"
        )
    return said


def new_model(preset: Preset, seed: int, init: Model | None = None) -> Model:
    """The model that a preset starts from."""
    config = ModelConfig(
        backbone=preset.backbone, method=preset.method, last_pool=preset.last_pool, transform=preset.transform
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Model(config)
    if init is not None:
        if init.config.backbone != preset.backbone:
            raise FrnError(f"--init is a {init.config.backbone} model, but the run trains {preset.backbone}")
        model.backbone.load_state_dict(init.backbone.state_dict())
        if init.config.method == preset.method:
            model.head.load_state_dict(init.head.state_dict())
    fix_regularisers(model, preset)
    return model


def fix_regularisers(model: Model, preset: Preset) -> None:
    """Leave out of training what the preset keeps at its start (SM, Ablation Study).

    Raises:
        FrnError: if something is to be kept, but the head is not FRN's.
    """
    if preset.fixed and not isinstance(model.head, FRNHead):
        raise FrnError(f"a fixed {' and '.join(preset.fixed)} is for --method frn, not {preset.method}")
    for name in preset.fixed:
        parameter = model.head.get_parameter({"lambda": "alpha", "rho": "beta"}[name])
        parameter.requires_grad_(False).zero_()


def build_optimizer(parameters: Iterable[nn.Parameter], schedule: Schedule) -> torch.optim.Optimizer:
    """SGD with momentum or Adam (with L2 decay, not AdamW), one parameter group of all that is not fixed."""
    learned = [parameter for parameter in parameters if parameter.requires_grad]
    if schedule.optimizer == "adam":
        return torch.optim.Adam(learned, schedule.learning_rate, weight_decay=schedule.weight_decay)
    return torch.optim.SGD(
        learned,
        schedule.learning_rate,
        momentum=schedule.momentum,
        nesterov=schedule.nesterov,
        weight_decay=schedule.weight_decay,
    )


def fit_shape(shape: EpisodeShape, images: StoredImages) -> EpisodeShape:
    """Fewer queries or classes than usual, where a validation split is too small for the usual number."""
    queries = max(1, min(shape.queries, min(images.sizes) - shape.shot))
    return replace(shape, way=max(2, min(shape.way, len(images.sizes))), queries=queries)


def head_scalars(model: Model) -> dict[str, float]:
    """The head's learned numbers (alpha, beta, gamma), for the metrics."""
    return {
        name: round(parameter.item(), 5) for name, parameter in model.head.named_parameters() if not parameter.dim()
    }
