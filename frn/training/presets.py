"""Training runs by name. A preset is a function that returns a value; free of torch."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from frn.data.augmentation import Augmentation
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.images import EvaluationTransform

WITH_AUXILIARY_LOSS = frozenset({"frn", "bifrn", "dsn", "ctx"})
"""Methods that the paper trains with Eq. 11 (SM, Implemented Baselines), and FRN's own kin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The optimiser and its step schedule. One parameter group: everything decays, as in the authors' code."""

    epochs: int
    milestones: tuple[int, ...]
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    lr_decay: float = 0.1
    """Factor at each milestone. Not called gamma: gamma is the head's temperature."""
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.learning_rate <= 0 or list(self.milestones) != sorted(set(self.milestones)):
            raise FrnError(f"a schedule needs at least one epoch, a positive rate and rising milestones: {self}")

    def learning_rate_at(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.learning_rate * self.lr_decay ** sum(epoch >= milestone for milestone in self.milestones)

    def scaled_to(self, epochs: int) -> "Schedule":
        """The same schedule over another number of epochs, its milestones at the same fractions."""
        scaled = {round(milestone * epochs / self.epochs) for milestone in self.milestones}
        return replace(self, epochs=epochs, milestones=tuple(sorted(m for m in scaled if 0 < m < epochs)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """Everything that decides a training run, except the data's place and the seed."""

    about: str
    """One line for `frn presets`."""
    prepare: str | None
    """The data set, as `frn data prepare` calls it; None where images are rendered on the spot."""
    method: str = "frn"
    backbone: str = "conv4"
    last_pool: bool = True
    episode: EpisodeShape
    schedule: Schedule
    augmentation: Augmentation
    transform: EvaluationTransform
    """For validation and for everyone who uses the model."""
    aux: Literal["reference", "paper", "off"] = "reference"
    fixed: tuple[Literal["lambda", "rho"], ...] = ()
    """What FRN does not learn but leaves at its start: alpha = 0 of lambda, beta = 0 of rho (SM, Ablation Study)."""
    stage: Literal["episodes", "frn-pretrain", "average-pretrain"] = "episodes"
    """Episodes; or, before them, all classes at once: with dummy maps (Sec. 3.6), or classically."""
    batch: int = 128
    """Images of a step of pre-training."""
    store_side: int
    """Training images are kept at most this large (shorter side, pixels)."""
    val_every: int = 5
    """Epochs between validations."""
    val_shot: int | None = None
    """Shot of validation; None: that of training. The authors validate pre-training at 1 shot."""
    val_episodes: int = 1000
    test_shots: tuple[int, ...] = field(default=(1, 5))


def demo() -> Preset:
    """Small enough to try: half a minute on two cores."""
    return Preset(
        about="drawn moths, no data needed; half a minute on two cores",
        prepare=None,
        last_pool=False,
        episode=EpisodeShape(way=10, shot=5, queries=5),
        schedule=Schedule(epochs=30, milestones=(20, 26)),
        augmentation=Augmentation(size=32, crop="padded", padding=4),
        transform=EvaluationTransform(size=32),
        store_side=32,
        val_every=5,
        val_episodes=300,
    )


def cifar_fs_conv4() -> Preset:
    """The paper's Conv-4 recipe at CIFAR's own size, without the last pooling (r = 16 instead of 4)."""
    return Preset(
        about="CIFAR-FS at 32 x 32, r = 16; 50 minutes on two cores",
        prepare="cifar-fs",
        last_pool=False,
        episode=EpisodeShape(way=20, shot=5, queries=15),
        schedule=Schedule(epochs=150, milestones=(66, 87, 103, 115, 124, 131, 138, 145), lr_decay=0.5),
        augmentation=Augmentation(size=32, crop="padded", padding=4),
        transform=EvaluationTransform(size=32),
        store_side=32,
        val_every=15,
    )


def cifar_fs_conv4_short() -> Preset:
    """The budget of the tables that compare methods: a third of the queries, a sixth of the epochs."""
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS as above, short: what the method and ablation tables train; 13 minutes on one core",
        episode=EpisodeShape(way=20, shot=5, queries=5),
        schedule=cifar_fs_conv4().schedule.scaled_to(24),
        val_every=4,
    )


def cifar_fs_resnet12() -> Preset:
    """Half the way of Conv-4, as the paper does for memory; wants a GPU."""
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS at 32 x 32, r = 16; wants a GPU",
        backbone="resnet12",
        episode=EpisodeShape(way=10, shot=5, queries=15),
    )


def cifar_fs_conv4_pretrain() -> Preset:
    """FRN pre-training (Sec. 3.6): all training classes at once, each rebuilt from its dummy map."""
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS, FRN pre-training with dummy maps",
        stage="frn-pretrain",
        schedule=Schedule(epochs=60, milestones=(30, 42, 50, 56), lr_decay=0.3),
        val_every=6,
        val_shot=1,
    )


def cifar_fs_conv4_average() -> Preset:
    """The classical pre-training that the paper compares with: a linear classifier on average-pooled maps."""
    return replace(
        cifar_fs_conv4_pretrain(),
        about="CIFAR-FS, classical pre-training on average-pooled maps",
        stage="average-pretrain",
        method="proto",
    )


def cifar_fs_conv4_finetune() -> Preset:
    """Episodes after pre-training: `--init` with its result; the rate is a hundredth, as the paper has it."""
    return replace(
        cifar_fs_conv4(),
        about="CIFAR-FS, episodes after pre-training: needs --init",
        schedule=Schedule(epochs=40, milestones=(20, 32), learning_rate=1e-3),
        val_every=5,
    )


def omniglot_conv4() -> Preset:
    """Characters have no colour, 20 drawings each, and must not be mirrored away; jitter is harmless on black ink."""
    return Preset(
        about="Omniglot characters at 28 x 28, r = 9; the small set takes a minute on two cores",
        prepare="omniglot",
        last_pool=False,
        episode=EpisodeShape(way=20, shot=5, queries=10),
        schedule=Schedule(epochs=150, milestones=(80, 120)),
        augmentation=Augmentation(size=28, crop="resized", scale=(0.6, 1.0), jitter=0.0),
        transform=EvaluationTransform(size=28, resize=28),
        store_side=35,
        val_every=10,
    )


def general_conv4() -> Preset:
    """The recipe of the shipped Conv-4: 84 x 84 images of everything."""
    return Preset(
        about="any folder of photos at 84 x 84, r = 25; the shipped conv4 was trained by it",
        prepare="folder",
        episode=EpisodeShape(way=20, shot=5, queries=10),
        schedule=Schedule(epochs=24, milestones=(11, 14, 16, 18, 20, 22, 23), lr_decay=0.5),
        augmentation=Augmentation(size=84, crop="resized", scale=(0.2, 1.0)),
        transform=EvaluationTransform(size=84, resize=92),
        store_side=128,
        val_every=4,
    )


PRESETS: dict[str, Callable[[], Preset]] = {
    preset.__name__.replace("_", "-"): preset
    for preset in (
        demo,
        cifar_fs_conv4,
        cifar_fs_conv4_short,
        cifar_fs_resnet12,
        cifar_fs_conv4_pretrain,
        cifar_fs_conv4_average,
        cifar_fs_conv4_finetune,
        omniglot_conv4,
        general_conv4,
    )
}


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        FrnError: naming the nearest ones.
    """
    key = name.lower().replace("_", "-")
    if key in PRESETS:
        return PRESETS[key]()
    near = difflib.get_close_matches(key, PRESETS, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(PRESETS)}."
    raise FrnError(f"unknown preset {name!r}. {hint}")
