"""Parts of a table: rows, their figures, and the runs and measurements behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frn.training.presets import PRESETS
from frn.training.presets.record import deciding_fields
from frn.training.runs.run_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A training run of a preset; its folder has its name."""

    name: str
    options: RunOptions
    """What decides the run; what is missing is only where things are."""
    init: "RunSpec | None" = None
    """The run whose result it starts from."""
    result: str = "best.safetensors"
    """Path of the result in its folder."""

    @property
    def prepare(self) -> str:
        """The data set, as `frn data prepare` calls it; one of `folder` with a name behind that."""
        data = PRESETS[self.options.preset].data
        return " ".join(word for word in (data.prepare, data.name) if word)

    @property
    def decides(self) -> dict[str, Any]:
        """What its checkpoint must say: the preset with what is changed of it, and the seed."""
        return {"seed": self.options.seed, **deciding_fields(self.options.overridden())}

    def words(self, start: str) -> tuple[str, ...]:
        """`frn train` with its options, but for where things are; it starts from the model `start`, if from any."""
        return (*self.options.words, *(("--init", start) if self.init else ()))


@dataclass(frozen=True, kw_only=True)
class DecoderSpec:
    """The training of a decoder on the feature maps of a run's result, and on the images that this has learned from."""

    name: str
    init: RunSpec
    epochs: int
    batch: int = 200
    result: str = ""
    """The folder itself."""

    @property
    def prepare(self) -> str:
        """The data set of the model."""
        return self.init.prepare

    @property
    def decides(self) -> dict[str, Any]:
        """How long, and in which steps."""
        return {"objective": "decoder", "seed": 0, "epochs": self.epochs, "batch": self.batch}

    def words(self, start: str) -> tuple[str, ...]:
        """`frn visualize train`."""
        return ("visualize", "train", start, "--epochs", str(self.epochs), "--batch", str(self.batch))


Run = RunSpec | DecoderSpec


def chain(run: Run) -> tuple[Run, ...]:
    """Return a run after those that it starts from."""
    return (*(chain(run.init) if run.init else ()), run)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """An evaluation of a run's result; the answer of `frn eval --json` is kept as NAME.json beside the runs."""

    name: str
    run: Run
    flags: tuple[str, ...] = ()
    prepare: str
    """The data set it is tested on, as `frn data prepare` calls it."""

    def words(self, start: str, result: str) -> tuple[str, ...]:
        """The `frn` command, but for the data: `result` of the run, which started from `start`, is tested."""
        return ("eval", result, *self.flags)


@dataclass(frozen=True, kw_only=True)
class Regeneration(Measurement):
    """What a decoder makes of feature maps; the answer is that of `frn visualize render --json`."""

    def words(self, start: str, result: str) -> tuple[str, ...]:
        """Its grid of pictures lies beside the decoder as well."""
        return ("visualize", "render", start, "--decoder", result, *self.flags, "--out", f"{result}.png")


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
    cells: Mapping[int | str, Cell]
    """By shot; or by what images are regenerated from."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A line that another command measures: seconds, megabytes, pixels."""

    label: str
    published: str
    command: str
    here: str = ""
    """Name of the measurement, if it differs from the paper's."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A line that the paper quotes of another one: in percent, as printed. Nobody trains it here."""

    label: str
    network: str
    one_shot: str
    five_shot: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper, or in its manner."""

    name: str
    source: str
    title: str
    rows: Sequence[Row] = ()
    elsewhere: Sequence[Elsewhere] = ()
    quoted: Sequence[Quoted] = ()
    note: str = ""
    unit: str = "in percent"
    """Unit of its figures."""
    digits: int = 2
    """Decimals of its figures, behind the point."""


def data_name(prepare: str) -> str:
    """Return the name of a data set: "cub-raw --split chen" is cub-raw-chen, "folder cub" is cub."""
    return prepare.removeprefix("folder ").replace(" --split ", "-")


def prepared_by(prepare: str) -> str:
    """The words behind `frn data prepare` that make it."""
    return "folder" if prepare.startswith("folder ") else prepare


def run_of(preset: str) -> RunSpec:
    """The run of a preset as it stands, after the pre-training that it needs."""
    start = PRESETS[preset].pretraining.init_from
    return RunSpec(name=preset, options=RunOptions(preset=preset), init=run_of(start) if start else None)
