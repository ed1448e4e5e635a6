"""The training loop: one forward pass per episode, validation on cached features, checkpoints that survive a kill."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from frn.checkpoints import save_model
from frn.data.cache import StoredImages
from frn.data.joined import JoinedImages
from frn.data.transforms import augment
from frn.episodes import Episode, EpisodeShape, check_classes
from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy
from frn.evaluation.episodes import evaluate_episodes
from frn.evaluation.features import extract_features
from frn.evaluation.tuning import EPISODES, as_trial, set_head
from frn.heads.frn import FRNHead
from frn.inference.regularisers import choose
from frn.model import Model
from frn.model_file import ModelConfig
from frn.precision import autocast, keep_freed_memory
from frn.training.objectives import build_objective
from frn.training.presets import Preset, Schedule
from frn.training.run import RunResult, RunSettings, TrainingRun
from frn.training.run_folder import RunFolder

VALIDATION_SHAPE = EpisodeShape(way=5, shot=5, queries=16)
"""ValidationReport is 5-way with 16 queries, at the shot of training (facts: authors' trainer)."""

DESCRIPTION = ("about", "published")
"""What a preset says of itself that decides nothing."""


@dataclass(frozen=True, slots=True)
class StepReport:
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
class ValidationReport:
    """The model has been validated after an epoch."""

    epoch: int
    accuracy: Accuracy
    is_best: bool


def train(
    preset: Preset,
    images: StoredImages | JoinedImages,
    val_images: StoredImages | None,
    out: Path,
    settings: RunSettings,
    *,
    resume: bool = False,
    init: Model | None = None,
    facts: dict[str, object] | None = None,
    report: Callable[[StepReport | ValidationReport], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
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
        images: StoredImages | JoinedImages,
        val_images: StoredImages | None,
        folder: RunFolder,
        settings: RunSettings,
        report: Callable[[StepReport | ValidationReport], None],
    ) -> None:
        self.preset = preset
        self.images = images
        self.val_images = val_images
        self.folder = folder
        self.settings = settings
        self.report = report
        self.val_shape = replace(VALIDATION_SHAPE, shot=preset.val_shot or preset.episode.shot)
        if preset.objective == "episodes":
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
            self.objective = build_objective(self.preset, self.model, self.images.sizes).to(settings.device)
        if init and not resume and self.preset.objective == "episodes" and self.introduces(init):
            self.introduce()
        self.optimizer = build_optimizer([*self.model.parameters(), *self.objective.parameters()], self.preset.schedule)
        self.run = TrainingRun(
            self.folder, self.model, self.objective, self.optimizer, decides, settings, resume=resume
        )
        self.position = self.run.position

    def introduces(self, init: Model) -> bool:
        """Whether the head is introduced to the backbone: after another method's training, or if the preset says so."""
        return self.preset.tune_head_at_start or init.config.method != self.preset.method

    def introduce(self) -> None:
        """Let an FRN head begin with what suits a backbone that was trained otherwise, by the first episodes.

        At the small rates of episodes after pre-training, alpha and gamma would take most of the run to get there.
        """
        if not isinstance(self.model.head, FRNHead):
            return
        shape = self.preset.episode
        first = self.objective.epoch([part.sizes for part in self.images.parts], seed=self.settings.seed, epoch=0)
        trials = []
        self.model.eval()
        with torch.inference_mode():
            for index, drawn in enumerate(first[:EPISODES]):
                maps = self.feature_maps(drawn, np.random.default_rng([self.settings.seed, 0, index, 1]))
                episode = maps.unflatten(0, (shape.way, shape.per_class)).float().cpu().numpy()
                trials.append(as_trial(episode, shape.shot))
        set_head(self.model.head, choose(trials))
        fix_regularisers(self.model, self.preset)

    def go_on(self, stop: Callable[[], bool]) -> RunResult:
        """Train until the schedule ends or `stop` says so."""
        return self.run.go_on(self.preset.schedule.epochs, self.draw, self.train_on, stop, self.validate_if_due)

    def draw(self) -> list[Episode]:
        """The steps of this epoch."""
        self.model.train()
        sets = [part.sizes for part in self.images.parts]
        return self.objective.epoch(sets, seed=self.settings.seed, epoch=self.position.epoch)

    def train_on(self, drawn: Episode, steps_in_epoch: int) -> None:
        """Take one optimiser step on one episode, or one batch."""
        position, settings = self.position, self.settings
        rate = self.preset.schedule.learning_rate_at(position.epoch, position.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        generator = np.random.default_rng([settings.seed, position.epoch, position.step, 1])
        maps = self.feature_maps(drawn, generator)
        loss, logits, target = self.objective.score(self.model, maps, drawn)
        value = loss.item()
        if not np.isfinite(value):
            raise FrnError(
                f"the loss became {value} in epoch {position.epoch + 1}, episode {position.step + 1}. Lower the learning "
                f"rate, or use --precision fp32; {self.folder.last} holds earlier weights."
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        accuracy = 100 * (logits.argmax(1) == target).float().mean().item()
        self.folder.append_metrics(
            total_steps=position.total_steps + 1,
            epoch=position.epoch + 1,
            loss=round(value, 5),
            accuracy=round(accuracy, 3),
            learning_rate=rate,
            **head_scalars(self.model),
        )
        trouble = self.model.head.trouble() if isinstance(self.model.head, FRNHead) else ""
        self.report(StepReport(position.epoch + 1, position.step + 1, steps_in_epoch, value, accuracy, trouble))

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
        position, schedule = self.position, self.preset.schedule
        last = position.epoch == schedule.epochs
        chooses = self.val_images is not None and self.preset.val_split == "val"
        if last and not chooses:
            self.save_best()
        if self.val_images is None or (position.epoch % self.preset.val_every and not last):
            return
        self.model.eval()
        maps = extract_features(
            self.model, self.val_images, precision=self.settings.precision, device=self.settings.device
        )
        accuracy = evaluate_episodes(
            self.model.head, maps, self.val_images.sizes, self.val_shape, episodes=self.preset.val_episodes, seed=0
        )
        is_best = chooses and accuracy.mean > position.best
        if is_best:
            position.best = accuracy.mean
            self.save_best(validation={"shape": str(self.val_shape), "accuracy": accuracy.mean, "ci95": accuracy.ci95})
        self.folder.append_metrics(
            total_steps=position.total_steps, epoch=position.epoch, val_accuracy=accuracy.mean, val_ci95=accuracy.ci95
        )
        self.report(ValidationReport(position.epoch, accuracy, is_best))

    def save_best(self, **record: object) -> None:
        """Write the result so far, a plain model file."""
        position = {"epoch": self.position.epoch, "steps": self.position.total_steps}
        save_model(self.model, self.folder.best, {**position, **record})


def describe(images: StoredImages | JoinedImages) -> list[str]:
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
