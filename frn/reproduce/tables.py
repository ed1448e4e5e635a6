"""All tables by name, read from `tables.toml`: rows, their figures, and the runs and measurements behind them."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any

from frn.errors import FrnError
from frn.training.presets import PRESETS
from frn.training.presets.preset import deciding_fields
from frn.training.runs.run_options import RunOptions


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A training run of a preset; its folder has the same name."""

    name: str
    options: RunOptions  # options that determine the run; only file locations are missing
    init: "RunSpec | None" = None  # run whose result it starts from

    @property
    def prepare(self) -> str:
        """Return the data set's name for `frn data prepare`, and its name in tables if it differs."""
        data = PRESETS[self.options.preset].data
        return " ".join(word for word in (data.prepare, data.name) if word)

    @property
    def decides(self) -> dict[str, Any]:
        """Return the settings that its checkpoint must have: the changed preset, and the seed."""
        return {"seed": self.options.seed or 0, **deciding_fields(self.options.overridden())}

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
    prepare: str  # test data set, by its name for `frn data prepare`


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
    cells: Mapping[int, Cell]  # cells by shot

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
    here: str = ""  # name of the measurement, if it differs from the paper's


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
    """Return the name of a data set: "cub-raw --split chen" is cub-raw-chen, "cub-cropped cub" is cub."""
    return prepare.replace(" --split ", "-").rpartition(" ")[2]


def run_of(preset: str) -> RunSpec:
    """Return the run of an unchanged preset, after any pre-training that it needs."""
    start = PRESETS[preset].pretraining.init_from
    return RunSpec(name=preset, options=RunOptions(preset=preset), init=run_of(start) if start else None)


def _read() -> dict[str, Table]:
    content = tomllib.loads((files("frn.reproduce") / "tables.toml").read_text(encoding="utf-8"))
    runs: dict[str, RunSpec] = {}
    for name, entry in content["runs"].items():
        start = runs[entry.pop("init")] if "init" in entry else None
        runs[name] = RunSpec(name=name, options=RunOptions(**entry), init=start)
    return {name: _table(name, entry, runs) for name, entry in content["tables"].items()}


def _table(name: str, entry: dict[str, Any], runs: Mapping[str, RunSpec]) -> Table:
    command, aside = entry.pop("measured_by", ""), entry.pop("aside", "")
    elsewhere = [
        Elsewhere(label, published, command, f"{label.replace('qpth', 'POT')}: {aside}" if aside else "")
        for label, published in entry.pop("elsewhere", ())
    ]
    rows = [_row(row, runs) for row in entry.pop("rows", ())]
    lines = [line.split("|") for line in entry.pop("quoted", "").splitlines()]
    quoted = [Quoted(*map(str.strip, line)) for line in lines]
    return Table(name, rows=rows, elsewhere=elsewhere, quoted=quoted, **entry)


def _row(entry: Mapping[str, Any], runs: Mapping[str, RunSpec]) -> Row:
    """Build a row; the figure of each shot comes from the first run tested at it."""
    cells: dict[int, Cell] = {}
    for run in (runs.get(name) or run_of(name) for name in entry["runs"]):
        preset = PRESETS[run.options.preset]
        measurement = Measurement(
            name=entry.get("name", run.name),
            run=run,
            flags=tuple(entry.get("flags", ())),
            prepare=entry.get("on", run.prepare),
        )
        figures = preset.published.accuracy if preset.published else {}
        intervals = preset.published.ci95 if preset.published else {}
        for shot in preset.test_shots:
            if shot in entry.get("shots", (1, 5)) and shot not in cells:
                interval = entry.get("ci95", {}).get(str(shot), intervals.get(shot))
                published = entry.get("published", {}).get(str(shot), (figures.get(shot), interval))
                cells[shot] = Cell(measurement, *published)
    name = entry.get("name", entry["runs"][-1].removesuffix("-5shot"))
    return Row(name=name, label=entry["label"], cells=dict(sorted(cells.items())))


TABLES = _read()


def find_table(name: str) -> Table:
    """Return a table by name. Raises FrnError with similar names if it does not exist."""
    if name in TABLES:
        return TABLES[name]
    near = difflib.get_close_matches(name, TABLES, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(TABLES)}."
    raise FrnError(f"unknown table {name!r}. {hint}")


def choose_rows(table: Table, names: Sequence[str]) -> list[Row]:
    """Return the rows with these names, or all rows if `names` is empty. Raises FrnError for an unknown name."""
    known = [row.name for row in table.rows]
    for name in names:
        if name not in known:
            raise FrnError(f"table {table.name!r} has no row {name!r}. It has: {', '.join(known) or 'none to train'}.")
    return [row for row in table.rows if not names or row.name in names]
