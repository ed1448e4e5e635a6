"""Progress on a table: its finished parts, the commands that produce the rest, and a report as data and as Markdown.

A run is finished if its checkpoint says so, and measured if NAME.json exists next to its folder. `frn train` and `frn
eval --json` write both, so runs that were started by hand count as well. Commands in a report contain the names of data
sets and runs, but no locations on this machine.
"""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import numpy as np
from msgspec import Struct, convert
from numpy.typing import NDArray

from frn._version import __version__
from frn.errors import FrnError
from frn.evaluation.accuracy import Result, summarise
from frn.models.header import read_header
from frn.reproduce.tables import Elsewhere, Measurement, Quoted, Row, RunSpec, Table, data_name
from frn.system.files import read_json
from frn.system.hardware import cores, processor
from frn.training.presets.preset import changes


@dataclass(frozen=True, kw_only=True, slots=True)
class Locations:
    """Locations of runs and data sets."""

    runs: Path
    data: Mapping[str, Path] = field(default_factory=dict)  # folders of the data sets by name
    options: tuple[str, ...] = ()  # options of every command, such as threads and device
    precision: str = "fp32"  # precision of training; a resumed run keeps its own

    def folder(self, run: RunSpec) -> Path:
        """Return the run's folder."""
        return self.runs / run.name

    def result(self, run: RunSpec | None) -> str:
        """Return the path of the run's result; empty without a run."""
        return str(self.folder(run) / "best.safetensors") if run else ""

    def answer(self, measurement: Measurement) -> Path:
        """Return the file that stores the result of `frn eval`."""
        return self.runs / f"{measurement.name}.json"

    def data_for(self, prepare: str) -> Path:
        """Return the folder of a data set. Raises MissingDataError, which says how to prepare it."""
        name = data_name(prepare)
        if name not in self.data:
            source = prepare.removesuffix(f" {name}")
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
    answer: Path | None = None  # file in which its output is stored

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


class EvalOutput(Struct, frozen=True):
    """Result of a measurement: the output of `frn eval --json`."""

    results: list[Result]
    seed: int


def stored(measurement: Measurement, locations: Locations) -> EvalOutput | None:
    """Return the result of a measurement, or None if it does not exist, is damaged or older than the model."""
    try:
        answer = convert(read_json(locations.answer(measurement)), EvalOutput)
    except ValueError:
        return None
    model = Path(locations.result(measurement.run))
    if model.is_file() and model.stat().st_mtime > locations.answer(measurement).stat().st_mtime:
        return None
    is_sound = answer.results and all(math.isfinite(each["accuracy"] + each["ci95"]) for each in answer.results)
    return answer if is_sound else None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStatus:
    """Status of a run as stored in its checkpoint."""

    finished: bool
    precision: str
    machine: str | None  # processor and threads, if the run recorded them


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
            f"({', '.join(differing[:4])}). Move it and its results ({folder}*.json) away, or give another --runs."
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
    words = (
        "eval",
        locations.result(measurement.run),
        *measurement.flags,
        "--data",
        str(data),
        "--json",
        "--per-episode",
    )
    return Command((*words, *locations.options), locations.answer(measurement))


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
    commands: list[str] = []  # commands that produce it, in order
    missing: str | None = None  # reason why it is not fully measured


class Comparison(Struct, frozen=True, omit_defaults=True):
    """A method minus the table's first, in points. A method is all rows on the same data that differ only by seed."""

    method: str
    shot: str
    difference: float  # difference of the means over the seeds
    ci95: float  # its interval over the draw of episodes
    paired: bool  # whether the interval is that of the differences in the same episodes; otherwise it is wider
    seeds: list[float]  # accuracy of each seed
    verdict: str = ""
    """ahead or behind, if the interval excludes zero and all seeds of one are above all seeds of the other."""


class Report(Struct, frozen=True):
    """A whole table, as in TABLE.json."""

    table: str
    source: str
    title: str
    note: str
    version: str
    machine: str  # machine on which the table was generated
    rows: list[Line]
    protocols: list[str]  # episodes of the measurements
    trained: list[str]  # machines and precisions of the runs
    elsewhere: Sequence[Elsewhere]
    quoted: Sequence[Quoted] = ()  # results that the paper quotes from other papers
    comparisons: Sequence[Comparison] = ()


def report(table: Table, rows: Sequence[Row], locations: Locations, missing: Mapping[str, str]) -> Report:
    """Return the known figures of some rows of a table; `missing` says why a row could not be measured."""
    answers = {m.name: stored(m, locations) for row in rows for m in row.measurements}
    measured = {name: answer for name, answer in answers.items() if answer}
    runs = {run.name: run for row in rows for m in row.measurements if m.name in measured for run in m.run.chain}
    statuses = {name: run_status(run, locations) for name, run in runs.items()}
    done = {name: status for name, status in statuses.items() if status}
    lines = [_line(row, measured, done, missing.get(row.name)) for row in rows]
    return Report(
        table=table.name,
        source=table.source,
        title=table.title,
        note=table.note,
        version=__version__,
        machine=f"{processor()}, {cores()} cores",
        rows=lines,
        protocols=sorted({_protocol(answer) for answer in measured.values()}),
        trained=sorted({f"{run.machine or 'unknown machine'}, {run.precision}" for run in done.values()}),
        elsewhere=table.elsewhere,
        quoted=table.quoted,
        comparisons=compare(rows, lines, measured),
    )


def compare(rows: Sequence[Row], lines: Sequence[Line], measured: Mapping[str, EvalOutput]) -> list[Comparison]:
    """Compare every method with that of the first row, at each shot; answers with `correct` give paired intervals."""
    compared: list[Comparison] = []
    for shot in dict.fromkeys(shot for row in rows for shot in row.cells):
        methods: dict[str, list[Figure]] = {}
        for row, line in zip(rows, lines, strict=True):
            alike = shot in row.cells and row.cells[shot].measurement.prepare == rows[0].measurements[0].prepare
            if alike and line.figures[str(shot)].accuracy is not None:
                methods.setdefault(method_of(row.label), []).append(line.figures[str(shot)])
        if first := methods.pop(method_of(rows[0].label), None):
            compared += [_comparison(each, shot, figures, first, measured) for each, figures in methods.items()]
    return compared


def method_of(label: str) -> str:
    """Return the label of a row without its seed."""
    return re.sub(r", seed \d+$", "", label)


def _comparison(
    method: str, shot: int, figures: list[Figure], first: list[Figure], measured: Mapping[str, EvalOutput]
) -> Comparison:
    seeds, of_first = ([f.accuracy for f in each if f.accuracy is not None] for each in (figures, first))
    difference = float(np.mean(seeds) - np.mean(of_first))
    shares = [[_per_episode(measured.get(f.measurement), shot) for f in each] for each in (figures, first)]
    paired = len({len(share) for each in shares for share in each}) == 1 and len(shares[0][0]) > 0
    if paired:
        ci95 = summarise(np.mean(shares[0], axis=0) - np.mean(shares[1], axis=0)).ci95
    else:
        ci95 = math.hypot(*(float(np.mean([f.ci95 or 0.0 for f in each])) for each in (figures, first)))
    verdict = ""
    if abs(difference) > ci95 and min(len(seeds), len(of_first)) > 1:
        verdict = "ahead" if min(seeds) > max(of_first) else "behind" if max(seeds) < min(of_first) else ""
    return Comparison(method, str(shot), difference, ci95, paired, seeds, verdict)


def _per_episode(answer: EvalOutput | None, shot: int) -> NDArray[np.float64]:
    """Return the share of correct answers in each episode, or nothing if it was not stored."""
    for result in answer.results if answer else ():
        if result["shot"] == shot and "correct" in result:
            return np.array(result["correct"]) / (result["way"] * result["queries"])
    return np.empty(0)


def _line(row: Row, measured: Mapping[str, EvalOutput], done: Mapping[str, RunStatus], missing: str | None) -> Line:
    figures: dict[str, Figure] = {}
    for shot, cell in row.cells.items():
        answer = measured.get(cell.measurement.name)
        by_shot = {each["shot"]: (each["accuracy"], each["ci95"]) for each in answer.results} if answer else {}
        result = by_shot.get(shot, (None, None))
        figures[str(shot)] = Figure(cell.measurement.name, cell.published, cell.published_ci95, *result)
    return Line(row.name, row.label, figures, commands(row, done), missing)


def _protocol(answer: EvalOutput) -> str:
    shape = answer.results[0]
    return f"{shape['way']}-way, {shape['queries']} queries, {shape['episodes']:,} episodes, seed {answer.seed}"


def _place(run: RunSpec | None) -> str:
    return f"runs/{run.name}" if run else ""


def commands(row: Row, done: Mapping[str, RunStatus] = MappingProxyType({})) -> list[str]:
    """Return all commands that produce a row, in order, with locations by name and the precision of runs in `done`."""
    lines: list[Command] = []
    for measurement in row.measurements:
        for run in measurement.run.chain:
            precision = ("--precision", done[run.name].precision) if run.name in done else ()
            words = (*run.words(_place(run.init)), *precision, "--data", data_name(run.prepare), "--out", _place(run))
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


def markdown(tables: Report) -> str:
    """Render a table as a Markdown page with `table.md.jinja`."""
    from jinja2 import Template  # imported here because only pages need it

    heads: list[str] = []
    columns: list[list[str]] = []
    for column in dict.fromkeys(column for line in tables.rows for column in line.figures):
        figures = [line.figures.get(column) for line in tables.rows]
        if not any(figures):
            continue
        if any(f and f.published is not None for f in figures):
            heads.append(f"{column}-shot published")
            columns.append([figure(f.published, f.published_ci95) if f else "" for f in figures])
        heads.append(f"{column}-shot here")
        columns.append([figure(f.accuracy, f.ci95) if f else "" for f in figures])
    absent: dict[str, list[str]] = {}
    for line in tables.rows:
        if line.missing:
            absent.setdefault(line.missing, []).append(line.label)
    differences: dict[str, dict[str, str]] = {}
    shots = list(dict.fromkeys(each.shot for each in tables.comparisons))
    for each in tables.comparisons:
        runs = f"{each.seeds[0]:.2f}" if len(each.seeds) == 1 else f"{min(each.seeds):.2f} to {max(each.seeds):.2f}"
        words = f"{each.difference:+.2f} ± {each.ci95:.2f} ({runs})" + (f", {each.verdict}" if each.verdict else "")
        differences.setdefault(each.method, {})[each.shot] = words
    text = (files("frn.reproduce") / "table.md.jinja").read_text("utf-8")
    return Template(text, trim_blocks=True, keep_trailing_newline=True).render(
        found=tables,
        heads=heads,
        rows=list(zip(tables.rows, zip(*columns, strict=True), strict=True)),
        absent=absent,
        differences=[(method, [cells.get(shot, "") for shot in shots]) for method, cells in differences.items()],
        shots=shots,
        first=method_of(tables.rows[0].label) if tables.rows else "",
        paired=all(each.paired for each in tables.comparisons),
        called=dict.fromkeys(command for line in tables.rows if not line.missing for command in line.commands),
    )
