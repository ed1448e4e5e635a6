"""Finished parts of a table, and the commands that produce the rest.

A run is finished if its checkpoint says so, and measured if NAME.json exists next to its folder. `frn train` and `frn
eval --json` write both, so runs that were started by hand count as well.
"""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct, convert

from frn.errors import FrnError
from frn.evaluation.accuracy import Result
from frn.models.header import read_header
from frn.reproduce.tables import Measurement, Row, RunSpec, data_name
from frn.system.files import read_json
from frn.training.presets.preset import changes


@dataclass(frozen=True, kw_only=True, slots=True)
class Locations:
    """Locations of runs and data sets."""

    runs: Path
    data: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the data sets by name."""
    options: tuple[str, ...] = ()
    """Options of every command, such as threads and device."""
    precision: str = "fp32"
    """Precision of training; a resumed run keeps its own."""

    def folder(self, run: RunSpec) -> Path:
        """Return the run's folder."""
        return self.runs / run.name

    def result(self, run: RunSpec | None) -> str:
        """Return the path of the run's result; empty if there is no run."""
        return str(self.folder(run) / "best.safetensors") if run else ""

    def answer(self, measurement: Measurement) -> Path:
        """Return the file that stores the result of `frn eval`."""
        return self.runs / f"{measurement.name}.json"

    def data_for(self, prepare: str) -> Path:
        """Return the folder of a data set. Raises MissingDataError, which says how to prepare it."""
        name = data_name(prepare)
        if name not in self.data:
            source = "folder" if prepare.startswith("folder ") else prepare
            raise MissingDataError(
                f"needs {name}: `frn data prepare {source} --source ARCHIVE --out DIR` makes it; "
                f"then add --data {name}=DIR"
            )
        return self.data[name]


class MissingDataError(FrnError):
    """Raised if a row's data set is not available."""


@dataclass(frozen=True, slots=True)
class Command:
    """An `frn` command to run."""

    words: tuple[str, ...]
    answer: Path | None = None
    """File in which its output is stored."""

    def __str__(self) -> str:
        return shlex.join(("frn", *self.words))


def remaining_commands(row: Row, locations: Locations) -> list[Command]:
    """Return the commands still to be run for a row, in order.

    Raises MissingDataError if a data set is missing, and FrnError if a folder holds a run other than the row's.
    """
    missing: list[Command] = []
    for measurement in row.measurements:
        if stored(measurement, locations) is None:
            missing += _training(measurement.run, locations)
            missing.append(_evaluation(measurement, locations))
    return list(dict.fromkeys(missing))


class Answer(Struct, frozen=True):
    """Result of a measurement: the output of `frn eval --json`."""

    results: list[Result]
    seed: int


def stored(measurement: Measurement, locations: Locations) -> Answer | None:
    """Return the result of a measurement, or None if it does not exist or is damaged."""
    try:
        answer = convert(read_json(locations.answer(measurement)), Answer)
    except ValueError:
        return None
    is_sound = answer.results and all(math.isfinite(each["accuracy"] + each["ci95"]) for each in answer.results)
    return answer if is_sound else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """Status of a run as stored in its checkpoint."""

    finished: bool
    seconds: float
    precision: str
    machine: str | None
    """Processor and threads, if the run recorded them."""


def run_status(run: RunSpec, locations: Locations) -> RunStatus | None:
    """Return the progress of a run, or None if it has not started. Raises FrnError if the folder holds another run."""
    folder = locations.folder(run)
    if not (folder / "last.safetensors").is_file():
        return None
    _, record = read_header(folder / "last.safetensors")
    try:
        position, settings = record["training"]["place"], record["training"]["run"]
        status = convert(
            {
                "finished": position["epoch"] >= settings["schedule"]["epochs"],
                "seconds": position["seconds"],
                "precision": settings["precision"],
                "machine": record.get("machine"),
            },
            RunStatus,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FrnError(
            f"{folder}: its last.safetensors does not belong to a run. Move it away, or give another --runs."
        ) from error
    if differing := changes(settings, run.decides):
        raise FrnError(
            f"{folder}: contains a different run from `{Command(run.words(locations.result(run.init)))}` "
            f"({', '.join(differing[:4])}). Move it away, or give another --runs."
        )
    return status


def _training(run: RunSpec, locations: Locations) -> list[Command]:
    before = run_status(run, locations)
    if before and before.finished:
        return []
    words = [*run.words(locations.result(run.init))]
    words += ["--precision", before.precision if before else locations.precision]
    words += ["--data", str(locations.data_for(run.prepare)), "--out", str(locations.folder(run))]
    if before:
        words.append("--resume")
    first = _training(run.init, locations) if run.init else []
    return [*first, Command((*words, *locations.options))]


def _evaluation(measurement: Measurement, locations: Locations) -> Command:
    data = locations.data_for(measurement.prepare)
    words = ("eval", locations.result(measurement.run), *measurement.flags, "--data", str(data), "--json")
    return Command((*words, *locations.options), locations.answer(measurement))
