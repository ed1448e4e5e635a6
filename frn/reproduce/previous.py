"""Rows of a table that was made earlier, for when their runs are no longer at hand."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from frn.reproduce.report import Report, commands
from frn.reproduce.tables import Row


def read(path: Path) -> Report | None:
    """The table that `frn reproduce` wrote as JSON, or None where there is none or it is cut off."""
    try:
        return Report.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def has(previous: Report, row: Row) -> bool:
    """Whether every figure of a row is there, by the commands that it has today."""
    line = next((line for line in previous.rows if line.row == row.name), None)
    if line is None or any(figure.accuracy is None for figure in line.figures.values()):
        return False
    called = {entry.command for part in (previous.runs, previous.measurements) for entry in part.values()}
    return called.issuperset(commands(row))


def take_over(found: Report, previous: Report, rows: Collection[Row]) -> Report:
    """The table `found`, with these rows as they were, and the runs and measurements behind them."""
    names = {row.name for row in rows}
    wanted = {command for row in rows for command in commands(row)}
    before = {line.row: line for line in previous.rows}
    runs = {name: run for name, run in previous.runs.items() if run.command in wanted}
    measured = {name: entry for name, entry in previous.measurements.items() if entry.command in wanted}
    return replace(
        found,
        rows=[before[line.row] if line.row in names else line for line in found.rows],
        runs=runs | found.runs,
        measurements=measured | found.measurements,
    )
