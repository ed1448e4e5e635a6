"""The training loop: one forward pass per episode, validation on cached features, crash-safe checkpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from frn.data.batch_augmentation import augment
from frn.data.pixel_cache import ConcatImages, StoredImages
from frn.episodes import Episode, check_classes
from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy, summarise
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import TorchExtractor
from frn.models.header import read_header
from frn.models.model import Model, save_model
from frn.ridge.reconstruction import SingularError
from frn.ridge.tuning import TUNING_EPISODES
from frn.system.precision import autocast, keep_freed_memory, seed_torch
from frn.training.objectives import EpisodicObjective, Objective, PretrainingObjective
from frn.training.presets import Preset
from frn.training.presets.preset import deciding_fields
from frn.training.runs.run import RunFolder, RunResult, RunSettings, TrainingRun
from frn.training.setup import (
    build_optimizer,
    describe_images,
    describe_weights,
    fix_regularisers,
    new_model,
    validation_shape,
)


@dataclass(frozen=True, slots=True)
class StepReport:
    """Report of a training step: an episode, or a batch in pre-training."""

    epoch: int
    step: int
    steps_in_epoch: int
    loss: float
    accuracy: float  # percentage of its queries (or images) classified correctly
    divergence: str = ""  # reason why the head cannot recover; empty if it can
    total_steps: int = 0  # steps since the start of the run
    learned: Mapping[str, float] = field(default_factory=dict)
    """Learning rate, and the head's learned scalars (alpha, beta, gamma)."""

    @property
    def scalars(self) -> dict[str, float]:
        """Return its figures by their TensorBoard names."""
        scalars = {"train/loss": self.loss, "train/accuracy": self.accuracy}
        return scalars | {f"train/{name}": value for name, value in self.learned.items()}


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Report of a validation after an epoch."""

    epoch: int
    accuracy: Accuracy
    is_best: bool
    total_steps: int = 0  # steps since the start of the run

    @property
    def scalars(self) -> dict[str, float]:
        """Return its figures by their TensorBoard names."""
        return {"val/accuracy": self.accuracy.mean, "val/ci95": self.accuracy.ci95}


def train(
    preset: Preset,
    images: StoredImages | ConcatImages,
    val_images: StoredImages,
    out: Path,
    settings: RunSettings,
    *,
    init: Model | None = None,
    report: Callable[[StepReport | ValidationReport], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Train a model as a preset specifies; `best.safetensors` in `out` is the result.

    The validation images are prepared by the preset's transform. With `init`, training starts from that model's
    weights instead of random ones. `report` is called after every episode and validation. `stop` is called after every
    episode; if it returns True, the run is saved and stops. Raises FrnError if the classes are too small for the
    episodes, the folder is taken or cannot be written, or training diverges.
    """
    keep_freed_memory()
    if preset.trains_on_episodes:
        for part in images.parts:
            check_classes(part.names, part.sizes, preset.episode, where="the training split", every_class=False)
    trainer = _Trainer(preset, images, val_images, settings, report)
    return trainer.train(RunFolder(out, writes=settings.ranks.is_main), init, stop)


class _Step(nn.Module):
    """One rank's training step: returns the loss, and logits and targets of the classified images."""

    def __init__(self, model: Model, objective: Objective, settings: RunSettings) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.device, self.precision = settings.device, settings.precision

    def forward(
        self, images: Tensor, sampled: Episode, generator: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Score the augmented images (b, 3, H, W) of `sampled`."""
        with autocast(self.device, self.precision):
            maps = self.model.feature_maps(images)
        with torch.random.fork_rng(devices=[maps.device] if maps.is_cuda else []):
            torch.manual_seed(int(generator.integers(2**63)))  # dropout and noise of heads are the same after resuming
            return self.objective.score(self.model, maps, sampled)


@dataclass
class _Trainer:
    preset: Preset
    images: StoredImages | ConcatImages
    val_images: StoredImages
    settings: RunSettings
    report: Callable[[StepReport | ValidationReport], None]

    def __post_init__(self) -> None:
        self.val_shape = validation_shape(self.preset, self.val_images)

    def train(self, folder: RunFolder, init: Model | None, stop: Callable[[], bool]) -> RunResult:
        """Create or restore model, optimiser and folder; train until the schedule ends or `stop` returns True."""
        settings = self.settings
        self.folder = folder
        folder.pixels = [part.checksum for part in (*self.images.parts, *self.val_images.parts)]
        like = None if init is None else init.config  # weights expect their normalisation
        if settings.resume and folder.last.is_file():
            like = read_header(folder.last)[0]
        self.model = new_model(self.preset, settings.seed, init, like).to(settings.device)
        self.model.record = {**self.model.record, "seed": settings.seed, **settings.facts}
        with torch.random.fork_rng(devices=[]):
            seed_torch(settings.seed)
            kind = EpisodicObjective if self.preset.trains_on_episodes else PretrainingObjective
            self.objective: Objective = kind(self.preset, self.model, self.images.sizes).to(settings.device)
        other_head = init is not None and init.config.method != self.preset.method
        tunes = init is not None and (self.preset.pretraining.tune_head_at_start or other_head)
        if tunes and not settings.resume and self.preset.trains_on_episodes:
            self.tune_head()
        self.optimizer = build_optimizer([*self.model.parameters(), *self.objective.parameters()], self.preset.schedule)
        decides: dict[str, object] = {"seed": settings.seed, "precision": settings.precision}
        if init is not None or not settings.resume:  # --resume needs no --init
            decides["init"] = describe_weights(init)
        decides["images"] = describe_images(self.images)
        decides |= deciding_fields(self.preset)
        run = TrainingRun(folder, self.model, self.objective, self.optimizer, decides, settings)
        uses_all = self.preset.trains_on_episodes and self.preset.method == "frn"
        step = _Step(self.model, self.objective, settings)
        self.step = settings.ranks.together(step, uses_all=uses_all)
        self.position = run.position
        try:
            return run.run_epochs(self.preset.schedule.epochs, self.draw, self.train_on, stop, self.validate_if_due)
        except SingularError as error:
            raise self.diverged(str(error)) from error

    def tune_head(self) -> None:
        """Start the head on the first episodes, for a backbone that was trained with another objective."""
        shape = self.preset.episode
        first = self.objective.epoch([part.sizes for part in self.images.parts], seed=self.settings.seed, epoch=0)
        episodes = []
        self.model.eval()
        with torch.no_grad():
            for index, sampled in enumerate(first[:TUNING_EPISODES]):
                images = self.augmented(sampled, np.random.default_rng([self.settings.seed, 0, index, 1]))
                with autocast(self.settings.device, self.settings.precision):
                    maps = self.model.feature_maps(images)
                episodes.append(maps.unflatten(0, (shape.way, shape.per_class)).float())
            self.model.head.start_on(episodes, shape.shot)
        fix_regularisers(self.model, self.preset)

    def draw(self) -> list[Episode]:
        self.model.train()
        sets = [part.sizes for part in self.images.parts]
        return self.objective.epoch(sets, seed=self.settings.seed, epoch=self.position.epoch)

    def train_on(self, sampled: Episode, steps_in_epoch: int) -> None:
        """Take one optimiser step on an episode or a batch."""
        position, settings = self.position, self.settings
        rate = self.preset.schedule.learning_rate_at(position.epoch, position.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        generator = np.random.default_rng([settings.seed, position.epoch, position.step + settings.ranks.rank, 1])
        loss, logits, target = self.step(self.augmented(sampled, generator), sampled, generator)
        right = (logits.argmax(1) == target).double().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        singles = {name: p.detach().double() for name, p in self.model.head.named_parameters() if not p.dim()}
        # Read all values at once and last, so that nothing waits for the device earlier.
        figures = torch.stack([loss.detach().double(), 100 * right, *singles.values()])
        value, accuracy, *numbers = settings.ranks.mean(figures).tolist()
        if not np.isfinite(value):
            raise self.diverged(f"the loss is {value}")
        epoch, step, total = position.epoch + 1, position.step + settings.ranks.world, position.total_steps + 1
        learned = {"learning_rate": rate, **{name: round(n, 5) for name, n in zip(singles, numbers, strict=True)}}
        self.folder.append_metrics(
            total_steps=total, epoch=epoch, loss=round(value, 5), accuracy=round(accuracy, 3), **learned
        )
        divergence = self.model.head.divergence_reason()
        self.report(StepReport(epoch, step, steps_in_epoch, value, accuracy, divergence, total, learned))

    def diverged(self, how: str) -> FrnError:
        return FrnError(
            f"training diverged in epoch {self.position.epoch + 1}, step {self.position.step + 1}: {how}. Start "
            f"again with a lower --lr, --warm-up 200 or --precision fp32; {self.folder.last} holds earlier weights."
        )

    def augmented(self, sampled: Episode, generator: np.random.Generator) -> Tensor:
        """Return a step's augmented images (b, 3, H, W)."""
        canvas, extents = self.images.gather(sampled.ravel())
        return augment(canvas, extents, self.preset.augmentation, generator, self.settings.device)

    def validate_if_due(self) -> None:
        """Validate after an epoch; keep the model if it is strictly better than every earlier one.

        Accuracy on the test split is not used for selection; the last weights are kept then.
        """
        position, protocol = self.position, self.preset.validation
        last = position.epoch == self.preset.schedule.epochs
        if last and protocol.split != "val":
            self.save_best()
        if last or position.epoch % protocol.every == 0:
            self.validate()

    def validate(self) -> Accuracy:
        """Validate now; keep the model if it is strictly better than every earlier one and the split may select."""
        position, protocol = self.position, self.preset.validation
        self.model.eval()
        ranks, settings = self.settings.ranks, self.settings
        ranks.sync_buffers(self.model)
        part = self.val_images.portion(ranks.share(len(self.val_images)))
        part_maps = TorchExtractor(self.model, settings.precision, settings.device).extract(part)
        maps = ranks.gather(part_maps, len(self.val_images))  # with few episodes, each rank scores all of them
        sizes, episodes = self.val_images.sizes, range(protocol.episodes)
        shares = episode_accuracies(self.model.head, maps, sizes, self.val_shape, episodes=episodes, seed=0)
        accuracy = summarise(shares)
        better = accuracy.mean > position.best or position.best == 0  # at 0% accuracy, there must still be a result
        is_best = protocol.split == "val" and better
        if is_best:
            position.best = accuracy.mean
            self.save_best(validation={"shape": str(self.val_shape), "accuracy": accuracy.mean, "ci95": accuracy.ci95})
        self.folder.append_metrics(
            total_steps=position.total_steps, epoch=position.epoch, val_accuracy=accuracy.mean, val_ci95=accuracy.ci95
        )
        self.report(ValidationReport(position.epoch, accuracy, is_best, position.total_steps))
        return accuracy

    def save_best(self, **record: object) -> None:
        """Write the current result as a plain model file."""
        if not self.settings.ranks.is_main:
            return
        position = {"epoch": self.position.epoch, "steps": self.position.total_steps}
        save_model(self.model, self.folder.best, {**position, **record})
