"""A table as data and as Markdown: published and measured figures, and the commands that produce them.

Commands contain the names of data sets and runs, but no locations on this machine.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from msgspec import Struct, convert

from frn._version import __version__
from frn.reproduce.plan import Answer, Command, Locations, RunStatus, run_status, stored
from frn.reproduce.tables import Elsewhere, Quoted, Row, RunSpec, Table, data_name
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
        found = {each["shot"]: (each["accuracy"], each["ci95"]) for each in answer.results} if answer else {}
        own = found.get(shot, (None, None))
        figures[str(shot)] = Figure(cell.measurement.name, cell.published, cell.published_ci95, *own)
    behind = {m.run.name: m.run for m in row.measurements if m.name in measured}
    training = " + ".join(_minutes(run, done) for name, run in behind.items() if name in done)
    return Line(row.name, row.label, figures, commands(row), training, missing)


def _minutes(run: RunSpec, done: Mapping[str, RunStatus]) -> str:
    before = f" after {_minutes(run.init, done)}" if run.init and run.init.name in done else ""
    return f"{done[run.name].seconds / 60:.0f} min{before}"


def _protocol(answer: Answer) -> str:
    shape = answer.results[0]
    return f"{shape['way']}-way, {shape['queries']} queries, {shape['episodes']:,} episodes, seed {answer.seed}"


def _place(run: RunSpec | None) -> str:
    return f"runs/{run.name}" if run else ""


def commands(row: Row) -> list[str]:
    """Return all commands that produce a row, in order, with locations by name."""
    lines: list[Command] = []
    for measurement in row.measurements:
        for run in measurement.run.chain:
            words = (*run.words(_place(run.init)), "--data", data_name(run.prepare), "--out", _place(run))
            lines.append(Command(words))
        words = ("eval", _place(measurement.run), *measurement.flags, "--data", data_name(measurement.prepare))
        lines.append(Command((*words, "--json")))
    return list(dict.fromkeys(map(str, lines)))


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
