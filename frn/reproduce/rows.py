"""What a table is made of: rows, their figures, and the runs and measurements behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frn.training.options import RunOptions
from frn.training.presets import PRESETS


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """A training run; its folder has its name."""

    name: str
    options: RunOptions
    """What decides the run; what is missing is only where things are."""
    init: "RunSpec | None" = None
    """The run whose result it starts from."""

    @property
    def prepare(self) -> str:
        """The data set, as `frn data prepare` calls it; one of `folder` with a name behind that."""
        data = PRESETS[self.options.preset].data
        return " ".join(word for word in (data.prepare, data.name) if word)

    @property
    def chain(self) -> "tuple[RunSpec, ...]":
        """The run after those that it starts from."""
        return (*(self.init.chain if self.init else ()), self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """An evaluation of a run's result; the answer of `frn eval --json` is kept as NAME.json beside the runs."""

    name: str
    run: RunSpec
    flags: tuple[str, ...] = ()
    prepare: str
    """The data set it is tested on, as `frn data prepare` calls it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: what the paper has, and what to measure."""

    measurement: Measurement
    published: float | None = None
    published_ci95: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A line of a table."""

    name: str
    label: str
    cells: Mapping[int, Cell]
    """By shot."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A line that another command measures: seconds, megabytes, pixels."""

    label: str
    published: str
    command: str
    here: str = ""
    """What the command measures, by its own name, where that is not what the paper has measured."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or in its manner."""

    name: str
    source: str
    title: str
    rows: Sequence[Row] = ()
    elsewhere: Sequence[Elsewhere] = ()
    note: str = ""


def data_name(prepare: str) -> str:
    """What a data set is called here: "cub-raw --split chen" is cub-raw-chen, "folder cub" is cub."""
    return prepare.removeprefix("folder ").replace(" --split ", "-")


def prepared_by(prepare: str) -> str:
    """The words behind `frn data prepare` that make it."""
    return "folder" if prepare.startswith("folder ") else prepare


def run_of(preset: str) -> RunSpec:
    """The run of a preset as it stands, after the pre-training that it needs."""
    start = PRESETS[preset].pretraining.init_from
    return RunSpec(name=preset, options=RunOptions(preset=preset), init=run_of(start) if start else None)


PublishedPair = tuple[tuple[float, ...], tuple[float, ...]]
"""Accuracy at 1 and at 5 shot, each with the half-width of its interval where there is one."""
NONE: PublishedPair = ((), ())


def own(label: str, run: RunSpec, published: PublishedPair = NONE) -> Row:
    """A row of our own: one run, tested at both shots."""
    return at_both(label, Measurement(name=run.name, run=run, prepare=run.prepare), published)


def at_both(label: str, measurement: Measurement, published: PublishedPair = NONE) -> Row:
    """One measurement at both shots."""
    one, five = published
    return Row(name=measurement.name, label=label, cells={1: Cell(measurement, *one), 5: Cell(measurement, *five)})
