"""A table as data and as Markdown: published and measured figures, and the commands that produce them.

Commands contain the names of data sets and runs, but no locations on this machine.
"""

import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from msgspec import Struct, convert

from frn._version import __version__
from frn.reproduce.plan import Answer, Locations, RunStatus, run_status, stored
from frn.reproduce.tables import Elsewhere, Measurement, Quoted, Row, RunSpec, Table, data_name
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
    commands: list[str] = []
    """Commands that produce it, in order."""
    training: str = ""
    """Training time of its runs and of the runs they start from: one time, or one per shot."""
    missing: str | None = None
    """Reason why it is not fully measured."""


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
    protocols: list[str]
    """Episodes of the measurements."""
    trained: list[str]
    """Machines and precisions of the runs."""
    elsewhere: Sequence[Elsewhere]
    quoted: Sequence[Quoted] = ()
    """Results that the paper quotes from other papers."""


def report(table: Table, rows: Sequence[Row], locations: Locations, missing: Mapping[str, str]) -> Report:
    """Return the known figures of some rows of a table; `missing` says why a row could not be measured."""
    answers = {m.name: stored(m, locations) for row in rows for m in row.measurements}
    measured = {name: answer for name, answer in answers.items() if answer}
    runs = {run.name: run for row in rows for m in row.measurements if m.name in measured for run in m.run.chain}
    found = {name: run_status(run, locations) for name, run in runs.items()}
    done = {name: status for name, status in found.items() if status}
    return Report(
        table=table.name,
        source=table.source,
        title=table.title,
        note=table.note,
        version=__version__,
        machine=f"{processor()}, {cores()} cores",
        rows=[_line(row, measured, done, missing.get(row.name)) for row in rows],
        protocols=sorted({_protocol(answer) for answer in measured.values()}),
        trained=sorted({f"{run.machine or 'unknown machine'}, {run.precision}" for run in done.values()}),
        elsewhere=table.elsewhere,
        quoted=table.quoted,
    )


def _line(row: Row, measured: Mapping[str, Answer], done: Mapping[str, RunStatus], missing: str | None) -> Line:
    figures: dict[str, Figure] = {}
    for shot, cell in row.cells.items():
        answer = measured.get(cell.measurement.name)
        found = {figure.shot: figure for figure in answer.results}.get(shot) if answer else None
        own = (found.accuracy, found.ci95) if found else (None, None)
        figures[str(shot)] = Figure(cell.measurement.name, cell.published, cell.published_ci95, *own)
    behind = {m.run.name: m.run for m in row.measurements if m.name in measured}
    training = " + ".join(_minutes(run, done) for name, run in behind.items() if name in done)
    return Line(row.name, row.label, figures, commands(row), training, missing)


def _minutes(run: RunSpec, done: Mapping[str, RunStatus]) -> str:
    before = f" after {_minutes(run.init, done)}" if run.init and run.init.name in done else ""
    return f"{done[run.name].seconds / 60:.0f} min{before}"


def _protocol(answer: Answer) -> str:
    shape = answer.results[0]
    return f"{shape.way}-way, {shape.queries} queries, {shape.episodes:,} episodes, seed {answer.seed}"


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


def read(path: Path) -> Report | None:
    """Return the table that `frn reproduce` wrote as JSON, or None if it does not exist or is damaged."""
    try:
        return convert(read_json(path), Report)
    except ValueError:  # also a lone surrogate in a key of a table
        return None


def figure(mean: float | None, ci95: float | None) -> str:
    """Return a figure and its interval, if they exist."""
    if mean is None:
        return ""
    return f"{mean:.2f}" if ci95 is None else f"{mean:.2f} ± {ci95:.2f}"


def markdown(found: Report) -> str:
    """Render a table as a Markdown page with `table.md.jinja`."""
    from jinja2 import Template  # imported here because only pages need it

    heads: list[str] = []
    columns: list[list[str]] = []
    for column in dict.fromkeys(column for line in found.rows for column in line.figures):
        figures = [line.figures.get(column) for line in found.rows]
        if not any(figures):
            continue
        if any(f and f.published is not None for f in figures):
            heads.append(f"{column}-shot published")
            columns.append([figure(f.published, f.published_ci95) if f else "" for f in figures])
        heads.append(f"{column}-shot here")
        columns.append([figure(f.accuracy, f.ci95) if f else "" for f in figures])
    absent: dict[str, list[str]] = {}
    for line in found.rows:
        if line.missing:
            absent.setdefault(line.missing, []).append(line.label)
    text = (files("frn.reproduce") / "table.md.jinja").read_text("utf-8")
    return Template(text, trim_blocks=True, keep_trailing_newline=True).render(
        found=found,
        heads=heads,
        rows=list(zip(found.rows, zip(*columns, strict=True), strict=True)),
        absent=absent,
        called=dict.fromkeys(command for line in found.rows if not line.missing for command in line.commands),
    )
