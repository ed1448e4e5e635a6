"""What decides a training run. Free of torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from frn.data.augmentation import Augmentation
from frn.episodes import Balance, EpisodeShape
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform

WITH_AUXILIARY_LOSS = frozenset({"frn", "frn-tdm", "dsn", "ctx", "srm", "lccrn"})
"""Methods that are trained with Eq. 11: the paper's (SM, Implemented Baselines), and those built on FRN's code."""

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
            or not 0 < self.learning_rate < math.inf
            or self.warm_up < 0
            or list(self.milestones) != sorted(set(self.milestones))
        ):
            raise FrnError(f"a schedule needs at least one epoch, a positive rate and rising milestones: {self}")
        if not (0 < self.lr_decay < math.inf and 0 <= self.momentum < 1 and 0 <= self.weight_decay < math.inf):
            raise FrnError(f"a schedule needs a positive lr_decay, momentum from 0 to 1 and no negative decay: {self}")
        if self.optimizer == "sgd" and self.nesterov and not self.momentum:
            raise FrnError(f"Nesterov's step needs momentum; without it say nesterov = false: {self}")

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
    """Table of the paper; those of the supplement continue counting."""
    accuracy: Mapping[int, float]
    """In percent, by test shot."""
    ci95: Mapping[int, float] = field(default_factory=dict)
    """Half-width of the 95% interval, where the table prints it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingData:
    """Which images, and how large they are kept."""

    prepare: str | None
    """The data set, as `frn data prepare` calls it; None where images are rendered on the spot."""
    name: str = ""
    """What tables call a data set of `frn data prepare folder`."""
    max_side: int
    """Training images are kept at most this large (shorter side, pixels)."""
    exclude_classes: tuple[str, ...] = ()
    """Training classes not to be used: relatives of classes that the model is tested on."""

    balance: Balance = 1.0
    """For several data sets: the power of a set's size that its share of an epoch goes with (at 1 every image comes
    once, at 0.5 small sets come more often); or the weight of each, in the order of `--data`."""

    def __post_init__(self) -> None:
        if isinstance(self.balance, tuple):
            if not self.balance or min(self.balance) <= 0:
                raise FrnError(f"data sets are weighted by positive numbers: {self}")
        elif not 0 <= self.balance <= 1:
            raise FrnError(f"data sets are balanced by a power between 0 and 1: {self}")
        if self.max_side < 8:
            raise FrnError(f"training images need a side of at least 8 pixels: {self}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationProtocol:
    """When and how a run is validated: 5-way, with 16 queries."""

    every: int = 5
    """Epochs between validations."""
    shot: int | None = None
    """None: that of training. The authors validate pre-training at 1 shot."""
    episodes: int = 1000
    start: bool = False
    """Whether the model that training starts from is also validated, and counts as the first best."""
    interpolation_weights: tuple[float, ...] = ()
    """Shares of the way from the weights that training starts from to those that it has: such mixtures are validated,
    too, and may be the best."""
    split: Literal["val", "test"] = "val"
    """"test", if there is no validation split: its accuracy is only logged, and the last weights are the result."""

    def __post_init__(self) -> None:
        if not all(0 < share < 1 for share in self.interpolation_weights):
            raise FrnError(f"interpolation_weights are between 0 and 1: {self}")
        if self.every < 1 or self.episodes < 1 or (self.shot is not None and self.shot < 1):
            raise FrnError(f"validation needs at least one epoch, one episode and one shot: {self}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretraining:
    """Steps of pre-training; or what episodes take over from it."""

    batch: int = 128
    """Images of a step of pre-training."""
    init_from: str | None = None
    """The preset of pre-training whose result this one starts from (`--init`)."""
    tune_head_at_start: bool = False
    """After pre-training, let the first episodes choose lambda, rho and gamma to begin with. The paper does not."""

    distil: float = 0.0
    """Share of the loss of classical pre-training that is agreement with what `--init`'s run, left as it is, says."""

    def __post_init__(self) -> None:
        if self.batch < 2:
            raise FrnError(f"a batch of pre-training needs at least two images: {self}")
        if not 0 <= self.distil <= 1:
            raise FrnError(f"distil is a share of the loss from 0 to 1, not {self.distil}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """Everything that decides a training run, except the data's place and the seed."""

    about: str
    """One line for `frn presets`."""
    method: str = "frn"
    backbone: str = "conv4"
    last_pool: bool = True
    objective: Literal["episodes", "frn-pretrain", "average-pretrain"] = "episodes"
    """Episodes; or, before them, all classes at once: with dummy maps (Sec. 3.6), or classically."""
    aux: Literal["reference", "paper", "off"] = "reference"
    """The auxiliary loss (Eq. 11)."""
    aux_heads: tuple[str, ...] = ()
    """Methods whose heads also score each episode, and are left behind when training ends. The paper has none."""
    classifier_weight: float = 0.0
    """Weight of a classifier of all classes beside the episodes' loss; it is also left behind. The paper has none."""
    fixed: tuple[Regulariser, ...] = ()
    """Parameters of FRN that stay at their start: alpha = 0 of lambda, beta = 0 of rho (SM, Ablation Study)."""
    data: TrainingData
    episode: EpisodeShape
    schedule: Schedule
    augmentation: Augmentation
    progressive_resizing: tuple[int, int] | None = None
    """Epochs at the beginning that train on smaller images, and the side of these in pixels. The paper has none."""
    freeze_batchnorm: bool = False
    """Whether batch normalisation keeps the means and variances that training starts with. The paper's does not."""
    transform: EvaluationTransform
    """For validation and for everyone who uses the model."""
    validation: ValidationProtocol = field(default_factory=ValidationProtocol)
    pretraining: Pretraining = field(default_factory=Pretraining)
    test_shots: tuple[int, ...] = (1, 5)
    published: Published | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.classifier_weight < math.inf:
            raise FrnError(f"a loss has a weight of 0 or more, not {self.classifier_weight}")
        epochs, side = self.progressive_resizing or (0, self.augmentation.size)
        if epochs < 0 or not 8 <= side <= self.augmentation.size:
            raise FrnError(
                f"progressive_resizing is a number of epochs and a side of 8 to {self.augmentation.size} pixels, not "
                f"{[epochs, side]}"
            )
        if min(self.test_shots, default=0) < 1:
            raise FrnError(f"test_shots are numbers of photos from 1 on, not {list(self.test_shots)}")
        if self.fixed and self.method != "frn":
            raise FrnError(f"a fixed {' and '.join(self.fixed)} is for --method frn, not {self.method}")
        if self.objective == "frn-pretrain" and self.method != "frn":
            raise FrnError(f"FRN pre-training is for --method frn, not {self.method}")
        if self.pretraining.distil and self.objective != "average-pretrain":
            raise FrnError("distil is for classical pre-training: the teacher is a linear classifier of all classes")
        larger = self.transform.size > self.augmentation.size  # FRN takes any r, but dummy maps have one of their own
        if self.transform.size < self.augmentation.size or (larger and self.objective == "frn-pretrain"):
            raise FrnError(
                f"training crops of {self.augmentation.size} pixels and evaluation at {self.transform.size} do not fit"
            )

    def augmentation_at(self, epoch: int) -> Augmentation:
        """Augmentation in an epoch, counted from 0."""
        if self.progressive_resizing is None or epoch >= self.progressive_resizing[0]:
            return self.augmentation
        return replace(self.augmentation, size=self.progressive_resizing[1])

    @property
    def trains_on_episodes(self) -> bool:
        """Return whether a step is an episode, not a batch of pre-training."""
        return self.objective == "episodes"
