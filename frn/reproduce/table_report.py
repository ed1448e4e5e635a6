"""A table as data and as Markdown: published and measured figures, and the commands that produce them.

Commands contain the names of data sets and runs, but no locations on this machine.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import replace

from frn._version import __version__
from frn.reproduce.plan import Locations, run_status, stored
from frn.reproduce.rows import Elsewhere, Measurement, Quoted, Row, RunSpec, Table, data_name
from frn.system.files import read_json
from frn.system.hardware import cores, processor


class Figure(Struct, frozen=True):
    """One shot of a row, in percent; None if missing."""

    measurement: str
    published: float | None
    published_ci95: float | None
    accuracy: float | None
    ci95: float | None


class Line(Struct, frozen=True, omit_defaults=True):
    """A row, with figures by shot."""

    row: str
    label: str
    figures: dict[str, Figure]
    missing: str | None = None
    """Reason why it is not fully measured."""


class FinishedRun(Struct, frozen=True):
    """Training time and precision of a run."""

    command: str
    seconds: float
    precision: str
    machine: str | None
    """Machine of the training, if recorded."""


class Measured(Struct, frozen=True):
    """A stored result of `frn eval`."""

    command: str
    run: str
    way: int
    queries: int
    episodes: int
    seed: int


class Report(Struct, frozen=True):
    """A whole table, as in TABLE.json."""

    table: str
    source: str
    title: str
    note: str
    version: str
    machine: str
    """Machine on which the table was generated."""
    rows: list[Line]
    runs: dict[str, FinishedRun]
    measurements: dict[str, Measured]
    elsewhere: Sequence[Elsewhere]
    quoted: Sequence[Quoted] = ()
    """Results that the paper quotes from other papers."""

    def has(self, row: Row) -> bool:
        """Return whether the table has every figure of a row, produced by its current commands."""
        line = next((line for line in self.rows if line.row == row.name), None)
        if line is None or any(figure.accuracy is None for figure in line.figures.values()):
            return False
        called = {entry.command for part in (self.runs, self.measurements) for entry in part.values()}
        return called.issuperset(commands(row))

    def with_rows_of(self, earlier: "Report", rows: Collection[Row]) -> "Report":
        """Return this table with these rows, their runs and measurements from an earlier one.

        This is used when the runs are no longer available.
        """
        names = {row.name for row in rows}
        wanted = {command for row in rows for command in commands(row)}
        before = {line.row: line for line in earlier.rows}
        return replace(
            self,
            rows=[replace(before[line.row], label=line.label) if line.row in names else line for line in self.rows],
            runs={name: run for name, run in earlier.runs.items() if run.command in wanted} | self.runs,
            measurements={name: entry for name, entry in earlier.measurements.items() if entry.command in wanted}
            | self.measurements,
        )


def report(table: Table, rows: Sequence[Row], locations: Locations, missing: Mapping[str, str]) -> Report:
    """Return the known figures of some rows of a table; `missing` says why a row could not be measured."""
    runs: dict[str, FinishedRun] = {}
    measured: dict[str, Measured] = {}
    for measurement in (measurement for row in rows for measurement in row.measurements):
        if (answer := stored(measurement, locations)) is None:
            continue
        for run in measurement.run.chain:
            if run.name not in runs and (done := run_status(run, locations)) is not None:
                runs[run.name] = FinishedRun(
                    training_command(run), round(done.seconds, 1), done.precision, done.machine
                )
        measured[measurement.name] = Measured(
            command=evaluation_command(measurement),
            run=measurement.run.name,
            way=answer.way,
            queries=answer.queries,
            episodes=answer.episodes,
            seed=answer.seed,
        )
    return Report(
        table=table.name,
        source=table.source,
        title=table.title,
        note=table.note,
        version=__version__,
        machine=f"{processor()}, {cores()} cores",
        rows=[_line(row, locations, missing.get(row.name)) for row in rows],
        runs=runs,
        measurements=measured,
        elsewhere=table.elsewhere,
        quoted=table.quoted,
    )


def _line(row: Row, locations: Locations, missing: str | None) -> Line:
    figures: dict[str, Figure] = {}
    for column, cell in row.cells.items():
        answer = stored(cell.measurement, locations)
        found = answer.figures.get(str(column)) if answer else None
        figures[str(column)] = Figure(
            cell.measurement.name,
            cell.published,
            cell.published_ci95,
            found.mean if found else None,
            found.ci95 if found else None,
        )
    return Line(row.name, row.label, figures, missing or None)


def _place(run: RunSpec | None) -> str:
    return f"runs/{run.name}" if run else ""


def training_command(run: RunSpec) -> str:
    """Return the command of a run, with locations by name."""
    return shlex.join(("frn", *run.words(_place(run.init)), "--data", data_name(run.prepare), "--out", _place(run)))


def evaluation_command(measurement: Measurement) -> str:
    """Return the command of a measurement, with locations by name."""
    words = ("frn", "eval", _place(measurement.run), *measurement.flags)
    return shlex.join((*words, "--data", data_name(measurement.prepare), "--json"))


def commands(row: Row) -> list[str]:
    """Return all commands that produce a row, in order."""
    lines: list[str] = []
    for measurement in row.measurements:
        lines += [*map(training_command, measurement.run.chain), evaluation_command(measurement)]
    return list(dict.fromkeys(lines))


class ListedRow(Struct):
    """A row before any command has run."""

    row: str
    label: str
    published: dict[str, float | None]
    """Published figures by shot."""
    commands: list[str]


class Listed(Struct):
    """A table before any command has run."""

    table: str
    source: str
    title: str
    rows: list[ListedRow]
    elsewhere: Sequence[Elsewhere]
    quoted: Sequence[Quoted]


def described(table: Table) -> Listed:
    """Return the published figures by shot, and the commands."""
    rows = [
        ListedRow(row.name, row.label, {str(shot): cell.published for shot, cell in row.cells.items()}, commands(row))
        for row in table.rows
    ]
    return Listed(table.name, table.source, table.title, rows, table.elsewhere, table.quoted)


def read(path: Path) -> Report | None:
    """Return the table that `frn reproduce` wrote as JSON, or None if it does not exist or is damaged."""
    try:
        return convert(read_json(path), Report)
    except ValueError:  # also a lone surrogate in a key of a table
        return None
