"""A table as data and as Markdown: published figures beside measured ones, and the commands behind them.

Nothing here names a place on the machine: commands are written with data sets and runs by their names.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from frn import __version__
from frn.machine import cores, processor
from frn.reproduce.plan import Locations, measurements, run_status, stored
from frn.reproduce.tables import Measurement, Row, RunSpec, Table, data_name


class Figure(TypedDict):
    """One shot of a row, in percent; None where there is nothing."""

    measurement: str
    published: float | None
    published_ci95: float | None
    accuracy: float | None
    ci95: float | None


class Line(TypedDict):
    """A row; figures by shot."""

    row: str
    label: str
    figures: dict[str, Figure]
    missing: NotRequired[str]
    """Why not all of it is measured."""


class Ran(TypedDict):
    """A finished run."""

    command: str
    seconds: float
    precision: str
    machine: str | None
    """Where it was trained, if it noted that."""


class Measured(TypedDict):
    """A stored answer of `frn eval`."""

    command: str
    run: str
    way: int
    queries: int
    episodes: int
    seed: int


class Report(TypedDict):
    """A whole table."""

    table: str
    source: str
    title: str
    note: str
    version: str
    machine: str
    """Where the table was made."""
    rows: list[Line]
    runs: dict[str, Ran]
    measurements: dict[str, Measured]
    elsewhere: list[dict[str, str]]


def report(table: Table, rows: Sequence[Row], locations: Locations, missing: Mapping[str, str]) -> Report:
    """What is known of a table.

    Args:
        table: the table.
        rows: those to report.
        locations: where runs are.
        missing: by row, why it could not be measured.
    """
    lines: list[Line] = []
    runs: dict[str, Ran] = {}
    measured: dict[str, Measured] = {}
    for row in rows:
        lines.append(_line(row, locations, missing.get(row.name)))
        for measurement in measurements(row):
            answer = stored(measurement, locations)
            if answer is None:
                continue
            _add_run(measurement.run, locations, runs)
            result = answer["results"][0]
            measured[measurement.name] = {
                "command": evaluation_command(measurement),
                "run": measurement.run.name,
                "way": result["way"],
                "queries": result["queries"],
                "episodes": result["episodes"],
                "seed": answer["seed"],
            }
    return {
        "table": table.name,
        "source": table.source,
        "title": table.title,
        "note": table.note,
        "version": __version__,
        "machine": f"{processor()}, {cores()} cores",
        "rows": lines,
        "runs": runs,
        "measurements": measured,
        "elsewhere": _elsewhere(table),
    }


def _line(row: Row, locations: Locations, missing: str | None) -> Line:
    figures: dict[str, Figure] = {}
    for shot, cell in row.cells.items():
        answer = stored(cell.measurement, locations) or {"results": []}
        result: dict[str, float] = next((found for found in answer["results"] if found["shot"] == shot), {})
        figures[str(shot)] = {
            "measurement": cell.measurement.name,
            "published": cell.published,
            "published_ci95": cell.published_ci95,
            "accuracy": result.get("accuracy"),
            "ci95": result.get("ci95"),
        }
    line: Line = {"row": row.name, "label": row.label, "figures": figures}
    if missing:
        line["missing"] = missing
    return line


def _add_run(run: RunSpec, locations: Locations, runs: dict[str, Ran]) -> None:
    if run.init:
        _add_run(run.init, locations, runs)
    done = run_status(run, locations)
    if done is not None and run.name not in runs:
        runs[run.name] = {
            "command": training_command(run),
            "seconds": round(done.seconds, 1),
            "precision": done.precision,
            "machine": done.machine or _threads(done.command),
        }


def _threads(command: list[str]) -> str | None:
    """The threads that a command asks for, as far as it does."""
    if "--threads" not in command:
        return None
    return f"threads: {command[command.index('--threads') + 1]}"


def training_command(run: RunSpec) -> str:
    """The command of a run, places by name."""
    init = ("--init", f"runs/{run.init.name}") if run.init else ()
    return shlex.join(("frn", *run.words, *init, "--data", data_name(run.prepare), "--out", f"runs/{run.name}"))


def evaluation_command(measurement: Measurement) -> str:
    """The command of a measurement, places by name."""
    model = f"runs/{measurement.run.name}"
    return shlex.join(("frn", "eval", model, *measurement.flags, "--data", data_name(measurement.prepare), "--json"))


def commands(row: Row) -> list[str]:
    """All commands behind a row, in order."""
    lines: list[str] = []
    for measurement in measurements(row):
        chain: list[RunSpec] = []
        run: RunSpec | None = measurement.run
        while run is not None:
            chain.insert(0, run)
            run = run.init
        lines += [*map(training_command, chain), evaluation_command(measurement)]
    return list(dict.fromkeys(lines))


def described(table: Table) -> dict[str, object]:
    """A table before anything of it is run: published figures by shot, and commands."""
    return {
        "table": table.name,
        "source": table.source,
        "title": table.title,
        "rows": [
            {
                "row": row.name,
                "label": row.label,
                "published": {str(shot): cell.published for shot, cell in row.cells.items()},
                "commands": commands(row),
            }
            for row in table.rows
        ],
        "elsewhere": _elsewhere(table),
    }


def _elsewhere(table: Table) -> list[dict[str, str]]:
    return [{"label": e.label, "published": e.published, "command": e.command} for e in table.elsewhere]


def percent(accuracy: float | None, ci95: float | None) -> str:
    """A figure with its interval, as far as there are any."""
    if accuracy is None:
        return ""
    return f"{accuracy:.2f}" if ci95 is None else f"{accuracy:.2f} ± {ci95:.2f}"


def minutes(line: Line, found: Report) -> str:
    """Time of training of the runs behind a row; of both, where each shot has its own, and of what they start from."""

    def told(run: Ran) -> str:
        start = re.search(r"--init runs/(\S+)", run["command"])
        before = found["runs"].get(start[1]) if start else None
        return f"{run['seconds'] / 60:.0f} min" + (f" after {told(before)}" if before else "")

    behind = dict.fromkeys(figure["measurement"] for figure in line["figures"].values())
    names = dict.fromkeys(found["measurements"][name]["run"] for name in behind if name in found["measurements"])
    runs = [found["runs"][name] for name in names if name in found["runs"]]
    return " + ".join(told(run) for run in runs)


def shots(found: Report) -> list[str]:
    """The shots that a table has figures of."""
    return sorted({shot for line in found["rows"] for shot in line["figures"]}, key=int)


def markdown(found: Report) -> str:
    """The table as a Markdown page."""
    parts = [f"# {found['title']}", f"{found['source'].capitalize()}; frn {found['version']}."]
    if found["note"]:
        parts.append(found["note"])
    if found["rows"]:
        parts.append("\n".join(_table(found)))
    if found["measurements"]:
        parts.append("\n".join(_how_measured(found)))
    absent: dict[str, list[str]] = {}
    for line in found["rows"]:
        if "missing" in line:
            absent.setdefault(line["missing"], []).append(line["label"])
    if absent:
        reasons = [f"- {'; '.join(labels)}: {reason}" for reason, labels in absent.items()]
        parts.append("\n".join(["Not measured here:", "", *reasons]))
    if found["elsewhere"]:
        lines = [f"| {e['label']} | {e['published']} | `{e['command']}` |" for e in found["elsewhere"]]
        parts.append("\n".join(["| | published | measured by |", "|---|---|---|", *lines]))
    called = [entry["command"] for part in (found["runs"], found["measurements"]) for entry in part.values()]
    if called:
        parts.append("\n".join(["```sh", *called, "```"]))
    return "\n\n".join(parts) + "\n"


def _table(found: Report) -> list[str]:
    heads, columns = [], []
    for shot in shots(found):
        figures = [line["figures"].get(shot) for line in found["rows"]]
        if any(figure and figure["published"] is not None for figure in figures):
            heads.append(f"{shot}-shot published")
            columns.append([percent(f["published"], f["published_ci95"]) if f else "" for f in figures])
        heads.append(f"{shot}-shot here")
        columns.append([percent(f["accuracy"], f["ci95"]) if f else "" for f in figures])
    lines = [f"| | {' | '.join(heads)} | training |", f"|---|{'---|' * len(heads)}---|"]
    for line, cells in zip(found["rows"], zip(*columns, strict=True), strict=True):
        lines.append(f"| {line['label']} | {' | '.join(cells)} | {minutes(line, found)} |")
    return lines


def _how_measured(found: Report) -> list[str]:
    protocols = {
        f"{m['way']}-way, {m['queries']} queries, {m['episodes']:,} episodes, seed {m['seed']}"
        for m in found["measurements"].values()
    }
    machines = {f"{run['machine'] or 'machine not noted'}, {run['precision']}" for run in found["runs"].values()}
    return [
        f"{'; '.join(sorted(protocols))}; mean and 95 % interval in percent.",
        f"RunStatus with: {'; '.join(sorted(machines)) or 'not known'}. Table made on: {found['machine']}.",
    ]
