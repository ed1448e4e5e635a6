"""What of a table is there already, and which commands make the rest.

A run is finished when its checkpoint says so, and measured when NAME.json lies beside its folder. Both are what
`frn train` and `frn eval --json` leave, so runs that were started by hand count too.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frn.errors import FrnError
from frn.files import read_json
from frn.model_file import read_header
from frn.reproduce.rows import Measurement, Row, RunSpec, data_name, prepared_by
from frn.training.presets.record import changes, deciding_fields


@dataclass(frozen=True, kw_only=True, slots=True)
class Locations:
    """Where runs and data sets are."""

    runs: Path
    data: Mapping[str, Path] = field(default_factory=dict)
    """Folders by the names of data sets."""
    options: tuple[str, ...] = ()
    """For every command: threads, device."""
    precision: str = "fp32"
    """Of training; a run that has begun goes on in its own."""

    def folder(self, run: RunSpec) -> Path:
        """The run's folder."""
        return self.runs / run.name

    def answer(self, measurement: Measurement) -> Path:
        """Where the answer of `frn eval` is kept."""
        return self.runs / f"{measurement.name}.json"

    def data_for(self, prepare: str) -> Path:
        """The folder of a data set; a MissingDataError says how to make it."""
        name = data_name(prepare)
        if name not in self.data:
            raise MissingDataError(
                f"needs {name}: `frn data prepare {prepared_by(prepare)} --source ARCHIVE --out DIR` makes it, "
                f"then add --data {name}=DIR"
            )
        return self.data[name]


class MissingDataError(FrnError):
    """A row's data set is not at hand."""


@dataclass(frozen=True, slots=True)
class Command:
    """An `frn` command to run."""

    words: tuple[str, ...]
    answer: Path | None = None
    """Where what it prints is kept."""

    def __str__(self) -> str:
        return shlex.join(("frn", *self.words))


def remaining_commands(row: Row, locations: Locations) -> list[Command]:
    """What is still to be run for a row, in order.

    Raises:
        MissingDataError: if a data set is missing.
        FrnError: if a folder holds another run than the row's.
    """
    missing: list[Command] = []
    for measurement in measurements(row):
        if stored(measurement, locations) is None:
            missing += _training(measurement.run, locations)
            missing.append(_evaluation(measurement, locations))
    return list(dict.fromkeys(missing))


def unmeasured(row: Row, locations: Locations) -> bool:
    """Whether an answer behind a row is missing."""
    return any(stored(measurement, locations) is None for measurement in measurements(row))


def measurements(row: Row) -> Iterator[Measurement]:
    """The different measurements behind a row's figures."""
    yield from {cell.measurement.name: cell.measurement for cell in row.cells.values()}.values()


def data_sets(row: Row) -> set[str]:
    """Names of the data sets behind a row."""
    return {
        data_name(prepare)
        for measurement in measurements(row)
        for prepare in (measurement.prepare, *(run.prepare for run in measurement.run.chain))
    }


def stored(measurement: Measurement, locations: Locations) -> dict[str, Any] | None:
    """The answer of `frn eval`, or None where there is none or it is cut off."""
    try:
        answer: dict[str, Any] = read_json(locations.answer(measurement))
        return answer if {result["shot"] for result in answer["results"]} else None
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """What a run's checkpoint says of it."""

    finished: bool
    seconds: float
    precision: str
    machine: str | None
    """Processor and threads, where the run noted them."""


def run_status(run: RunSpec, locations: Locations) -> RunStatus | None:
    """How far a run has come, or None where it has not begun. FrnError if the folder holds another run."""
    folder = locations.folder(run)
    if not (folder / "last.safetensors").is_file():
        return None
    _, record = read_header(folder / "last.safetensors")
    position, settings = record["training"]["place"], record["training"]["run"]
    if differing := changes(settings, {"seed": run.options.seed, **deciding_fields(run.options.overridden())}):
        raise FrnError(
            f"{folder}: holds another run than `{Command(run.options.words)}` ({', '.join(differing[:4])}). "
            "Move it away, or give another --runs."
        )
    return RunStatus(
        finished=position["epoch"] >= settings["schedule"]["epochs"],
        seconds=position["seconds"],
        precision=settings["precision"],
        machine=record.get("machine"),
    )


def _training(run: RunSpec, locations: Locations) -> list[Command]:
    before = run_status(run, locations)
    if before and before.finished:
        return []
    words = [*run.options.words, "--precision", before.precision if before else locations.precision]
    words += ["--data", str(locations.data_for(run.prepare)), "--out", str(locations.folder(run))]
    first = []
    if run.init:
        first = _training(run.init, locations)
        words += ["--init", str(locations.folder(run.init) / "best.safetensors")]
    if before:
        words.append("--resume")
    return [*first, Command((*words, *locations.options))]


def _evaluation(measurement: Measurement, locations: Locations) -> Command:
    best = locations.folder(measurement.run) / "best.safetensors"
    data = locations.data_for(measurement.prepare)
    words = ("eval", str(best), *measurement.flags, "--data", str(data), "--json", *locations.options)
    return Command(words, locations.answer(measurement))
