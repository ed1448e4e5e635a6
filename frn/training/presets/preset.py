"""What decides a training run. Free of torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from frn.data.augmentation import Augmentation
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.images import EvaluationTransform

WITH_AUXILIARY_LOSS = frozenset({"frn", "bifrn", "dsn", "ctx"})
"""Methods that the paper trains with Eq. 11 (SM, Implemented Baselines), and FRN's own kin."""

Regulariser = Literal["lambda", "rho"]


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
    warm_up: int = 0
    """Steps in which the rate rises to its first value. The paper has none."""

    def __post_init__(self) -> None:
        if (
            self.epochs < 1
            or self.learning_rate <= 0
            or self.warm_up < 0
            or list(self.milestones) != sorted(set(self.milestones))
        ):
            raise FrnError(f"a schedule needs at least one epoch, a positive rate and rising milestones: {self}")

    def learning_rate_at(self, epoch: int, step: int) -> float:
        """Learning rate of a step of an epoch, both counted from 0, the steps from the beginning of the run."""
        risen = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        return risen * self.learning_rate * self.lr_decay ** sum(epoch >= milestone for milestone in self.milestones)

    def scaled_to(self, epochs: int) -> "Schedule":
        """The same schedule over another number of epochs, its milestones at the same fractions."""
        scaled = {round(milestone * epochs / self.epochs) for milestone in self.milestones}
        return replace(self, epochs=epochs, milestones=tuple(sorted(m for m in scaled if 0 < m < epochs)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What the paper reports for a run: 5-way, 16 queries, 10,000 episodes."""

    table: int
    """Of the paper; those of the supplement go on counting."""
    accuracy: Mapping[int, float]
    """In percent, by test shot."""
    ci95: Mapping[int, float] = field(default_factory=dict)
    """Half-width of the 95% interval, where the table prints it."""


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
    aux_heads: tuple[str, ...] = ()
    """Methods whose heads score each episode, too, and are left behind when training ends. The paper has none."""
    tune_head_at_start: bool = False
    """After pre-training, let the first episodes choose lambda, rho and gamma to begin with. The paper does not."""
    fixed: tuple[Regulariser, ...] = ()
    """What FRN does not learn but leaves at its start: alpha = 0 of lambda, beta = 0 of rho (SM, Ablation Study)."""
    objective: Literal["episodes", "frn-pretrain", "average-pretrain"] = "episodes"
    """Episodes; or, before them, all classes at once: with dummy maps (Sec. 3.6), or classically."""
    init_from: str | None = None
    """The preset of pre-training whose result this one starts from (`--init`)."""
    batch: int = 128
    """Images of a step of pre-training."""
    max_side: int
    """Training images are kept at most this large (shorter side, pixels)."""
    exclude_classes: tuple[str, ...] = ()
    """Training classes not to be used: relatives of classes that the model is tested on."""
    val_every: int = 5
    """Epochs between validations."""
    val_shot: int | None = None
    """Shot of validation; None: that of training. The authors validate pre-training at 1 shot."""
    val_episodes: int = 1000
    val_split: Literal["val", "test"] = "val"
    """"test", where there is no validation split: its accuracy is only logged, and the last weights are the result."""
    test_shots: tuple[int, ...] = (1, 5)
    published: Published | None = None
