"""Settings that determine a training run, and the same as tables, named as in a run's `config.toml`; without torch."""

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from frn.data.augmentation import Augmentation
from frn.episodes import Balance, EpisodeShape
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.system.files import read_regular

Regulariser = Literal["lambda", "rho"]


def _require(is_valid: bool, rule: str, value: object) -> None:
    if not is_valid:
        raise FrnError(f"{rule}, not {value}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Optimiser and step schedule, with one parameter group: everything decays, as in the authors' code."""

    epochs: int
    milestones: tuple[int, ...]
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    lr_decay: float = 0.1  # Factor at each milestone. Not called gamma: gamma is the head's temperature.
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    warm_up: int = 0  # Warm-up steps, in which the learning rate rises to its first value. The paper has none.

    def __post_init__(self) -> None:
        rises = list(self.milestones) == sorted(set(self.milestones))
        starts = self.epochs >= 1 and 0 < self.learning_rate < math.inf and self.warm_up >= 0
        decays = 0 < self.lr_decay < math.inf and 0 <= self.weight_decay < math.inf and 0 <= self.momentum < 1
        _require(
            starts and rises, "a schedule needs an epoch, a positive learning rate and increasing milestones", self
        )
        _require(
            decays, "a schedule needs a positive lr_decay, momentum from 0 to 1 and no negative weight decay", self
        )
        moves = self.optimizer != "sgd" or not self.nesterov or self.momentum > 0
        _require(moves, "Nesterov needs momentum; without momentum set nesterov = false", self)

    def learning_rate_at(self, epoch: int, step: int) -> float:
        """Return the learning rate; the epoch and the step since the start of the run are counted from 0."""
        risen = min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0
        return risen * self.learning_rate * self.lr_decay ** sum(epoch >= milestone for milestone in self.milestones)

    def scaled_to(self, epochs: int) -> "Schedule":
        """Return this schedule over a different number of epochs, with milestones at the same fractions."""
        scaled = {round(milestone * epochs / self.epochs) for milestone in self.milestones}
        return replace(self, epochs=epochs, milestones=tuple(sorted(m for m in scaled if 0 < m < epochs)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Results that the paper reports for a run: 5-way, 16 queries, 10,000 episodes."""

    table: int  # number of the table in the paper; the supplement's tables continue the count
    accuracy: Mapping[int, float]  # accuracy in percent, by test shot
    ci95: Mapping[int, float] = field(default_factory=dict)  # half-width of the 95% interval, if the table prints it


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingData:
    """Training images and their stored size."""

    prepare: str | None  # name of the data set for `frn data prepare`; None if images are rendered
    name: str = ""  # name of the data set in tables; empty for that of `prepare`
    max_side: int  # largest shorter side of stored training images, in pixels
    exclude_classes: tuple[str, ...] = ()  # training classes to skip, because they are related to test classes

    balance: Balance = 1.0
    """Balance of several data sets in an epoch.

    A number is the power of a set's size that its share is proportional to: at 1 every image is used once, at 0.5 small
    sets are used more often. A list gives the weight of each set, in the order of `--data`.
    """

    def __post_init__(self) -> None:
        if isinstance(self.balance, tuple):
            positive = all(0 < weight < math.inf for weight in self.balance)
            _require(bool(self.balance) and positive, "data set weights must be positive", self)
        else:
            _require(0 <= self.balance <= 1, "the data set balance must be an exponent between 0 and 1", self)
        _require(self.max_side >= 8, "training images must have at least 8 pixels per side", self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationProtocol:
    """Validation of a run: 5-way, with 16 queries."""

    every: int = 5  # epochs between validations
    shot: int | None = None
    """Validation shot; None uses the training shot. The authors validate pre-training at 1 shot."""
    episodes: int = 1000
    split: Literal["val", "test"] = "val"
    """Split for validation. With "test", accuracy is only logged and the last weights are the result."""

    def __post_init__(self) -> None:
        measures = self.every >= 1 and self.episodes >= 1 and (self.shot is None or self.shot >= 1)
        _require(measures, "validation needs at least one epoch, one episode and one shot", self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretraining:
    """Settings of pre-training, and what episodic training takes from it."""

    batch: int = 128  # images per pre-training step
    init_from: str | None = None  # pre-training preset whose result this one starts from (`--init`)
    tune_head_at_start: bool = False
    """Whether the first episodes after pre-training choose the initial lambda, rho and gamma; not in the paper."""

    def __post_init__(self) -> None:
        _require(self.batch >= 2, "a pre-training batch needs at least two images", self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """All settings that determine a training run, except the location of the data and the seed."""

    about: str
    method: str = "frn"
    backbone: str = "conv4"
    last_pool: bool = True
    objective: Literal["episodes", "frn-pretrain", "average-pretrain"] = "episodes"
    """Episodes, or pre-training on all classes at once: with dummy maps (Sec. 3.6) or classically."""
    aux: Literal["reference", "paper", "off"] = "reference"
    fixed: tuple[Regulariser, ...] = ()
    """FRN parameters that keep their initial value: alpha = 0 for lambda, beta = 0 for rho (as in the ablations)."""
    data: TrainingData
    episode: EpisodeShape
    schedule: Schedule
    augmentation: Augmentation
    transform: EvaluationTransform
    validation: ValidationProtocol = field(default_factory=ValidationProtocol)
    pretraining: Pretraining = field(default_factory=Pretraining)
    test_shots: tuple[int, ...] = (1, 5)
    published: Published | None = None

    def __post_init__(self) -> None:
        _require(min(self.test_shots, default=0) >= 1, "test_shots must be 1 or more", list(self.test_shots))
        if self.fixed and self.method != "frn":
            raise FrnError(f"a fixed {' and '.join(self.fixed)} is for --method frn, not {self.method}")
        if self.objective == "frn-pretrain" and self.method != "frn":
            raise FrnError(f"FRN pre-training is for --method frn, not {self.method}")
        larger = self.transform.size > self.augmentation.size  # FRN takes any r, but dummy maps have a fixed one
        if self.transform.size < self.augmentation.size or (larger and self.objective == "frn-pretrain"):
            raise FrnError(
                f"training crops of {self.augmentation.size} pixels and evaluation at {self.transform.size} do "
                "not match"
            )

    @property
    def trains_on_episodes(self) -> bool:
        """Return whether a step is an episode rather than a pre-training batch."""
        return self.objective == "episodes"


MAX_PRESET_BYTES = 1 << 20
DESCRIPTION = ("about", "published")  # fields of a preset that only describe it
LENGTHENING = ("schedule.epochs", "schedule.milestones", "validation.every")
"""Settings that may change if a run is extended."""
NAMES = ("data.prepare", "data.name")  # settings that say how data sets are made; a run is known by their images

Settings = TypeVar("Settings")


def read_settings(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises FrnError if the file cannot be read or is not TOML."""
    data = read_regular(path, MAX_PRESET_BYTES)
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML or not UTF-8
        raise FrnError(f"{path}: is not a TOML file ({error})") from error


def overlay(settings: Settings, table: Mapping[str, Any], where: str, *, whole: bool = False) -> Settings:
    """Return a dataclass with fields replaced from a table, and those of nested dataclasses from its subtables.

    TOML has no None: a field missing from a `whole` table, as a run writes it, becomes None if its type allows. Raises
    FrnError, mentioning `where`, if a field does not exist or a value has the wrong type.
    """
    hints = get_type_hints(type(settings))
    names = [field.name for field in fields(settings) if field.name not in DESCRIPTION]  # type: ignore[arg-type]
    changed: dict[str, Any] = {}
    if whole:
        changed = {name: None for name in names if name not in table and type(None) in get_args(hints[name])}
    for name, value in table.items():
        if name not in names:
            raise FrnError(f"{where}: unknown setting {name!r}; choose from {', '.join(names)}")
        before = getattr(settings, name)
        if is_dataclass(before) and isinstance(value, Mapping):
            changed[name] = overlay(before, value, f"{where}, [{name}]", whole=whole)
        else:
            try:
                changed[name] = msgspec.convert(value, hints[name])
            except msgspec.ValidationError as error:
                choices = get_args(hints[name]) if get_origin(hints[name]) is Literal else [before]
                like = " or ".join(map(repr, choices))
                raise FrnError(f"{where}: {name} is {value!r}, but must have the type of {like}") from error
    return replace(settings, **changed)  # type: ignore[type-var]


def deciding_fields(preset: Preset) -> dict[str, Any]:
    """Return the settings that a resumed run must keep, as in `config.toml`."""
    return {name: value for name, value in asdict(preset).items() if name not in DESCRIPTION}


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between a stored run's settings and current ones; settings in only one are ignored."""
    old, new = _flat(before), _flat(json.loads(json.dumps(now)))
    both = sorted((old.keys() & new.keys()).difference(NAMES))
    return [f"{key} was {old[key]} and is {new[key]}" for key in both if old[key] != new[key]]


def lengthens(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether the new settings differ from a stored run's only by more epochs."""
    epochs = [_flat(run).get("schedule.epochs", 0) for run in (before, now)]
    others = [change for change in changes(before, now) if not change.startswith(LENGTHENING)]
    return epochs[0] < epochs[1] and not others


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
