"""Parts of a table: rows, their figures, and the runs and measurements that the figures come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from frn.training.presets import PRESETS
from frn.training.presets.settings import deciding_fields
from frn.training.runs.run_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A training run of a preset; its folder has the same name."""

    name: str
    options: RunOptions
    """Options that determine the run; only file locations are missing."""
    init: "RunSpec | None" = None
    """Run whose result it starts from."""

    @property
    def prepare(self) -> str:
        """Return the data set's name for `frn data prepare`; for `folder`, its own name follows."""
        data = PRESETS[self.options.preset].data
        return " ".join(word for word in (data.prepare, data.name) if word)

    @property
    def decides(self) -> dict[str, Any]:
        """Return the settings that its checkpoint must have: the changed preset, and the seed."""
        return {"seed": self.options.seed, **deciding_fields(self.options.overridden())}

    def words(self, start: str) -> tuple[str, ...]:
        """Return `frn train` with its options, without locations; `start` is the model to start from, if any."""
        words = ["train", self.options.preset]
        for field in fields(self.options)[1:]:
            if (value := getattr(self.options, field.name)) != field.default:
                words += [f"--{field.name.replace('_', '-')}", str(value)]
        return (*words, *(("--init", start) if self.init else ()))

    @property
    def chain(self) -> "tuple[RunSpec, ...]":
        """Return this run after those that it starts from."""
        return (*(self.init.chain if self.init else ()), self)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """An evaluation of a run's result; the output of `frn eval --json` is stored as NAME.json next to the runs."""

    name: str
    run: RunSpec
    flags: tuple[str, ...] = ()
    prepare: str
    """Test data set, by its name for `frn data prepare`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure: the published value and its measurement."""

    measurement: Measurement
    published: float | None = None
    published_ci95: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of a table."""

    name: str
    label: str
    cells: Mapping[int, Cell]
    """Cells by shot."""

    @property
    def measurements(self) -> list[Measurement]:
        """Return the distinct measurements that its figures come from."""
        return list({cell.measurement.name: cell.measurement for cell in self.cells.values()}.values())

    @property
    def data_sets(self) -> set[str]:
        """Return the names of the data sets that it needs."""
        of_runs = (run.prepare for measurement in self.measurements for run in measurement.run.chain)
        return {data_name(prepare) for prepare in (*of_runs, *(m.prepare for m in self.measurements))}


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A row measured by a different command: seconds, megabytes, pixels."""

    label: str
    published: str
    command: str
    here: str = ""
    """Name of the measurement, if it differs from the paper's."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A row that the paper quotes from another paper, in percent, as printed. It is not reproduced here."""

    label: str
    network: str
    one_shot: str
    five_shot: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or one in the same form."""

    name: str
    source: str
    title: str
    rows: Sequence[Row] = ()
    elsewhere: Sequence[Elsewhere] = ()
    quoted: Sequence[Quoted] = ()
    note: str = ""


def data_name(prepare: str) -> str:
    """Return the name of a data set: "cub-raw --split chen" is cub-raw-chen, "folder cub" is cub."""
    return prepare.removeprefix("folder ").replace(" --split ", "-")


def prepared_by(prepare: str) -> str:
    """Return the arguments of `frn data prepare` that prepare a data set."""
    return "folder" if prepare.startswith("folder ") else prepare


def run_of(preset: str) -> RunSpec:
    """Return the run of an unchanged preset, after any pre-training that it needs."""
    start = PRESETS[preset].pretraining.init_from
    return RunSpec(name=preset, options=RunOptions(preset=preset), init=run_of(start) if start else None)
