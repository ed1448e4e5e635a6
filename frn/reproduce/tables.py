"""All tables by name, read from `tables.toml`."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from frn.errors import FrnError
from frn.reproduce.rows import (
    Cell,
    Elsewhere,
    Measurement,
    Quoted,
    Row,
    RunSpec,
    Table,
    run_of,
)
from frn.training.presets import PRESETS
from frn.training.runs.run_options import RunOptions


def _read() -> dict[str, Table]:
    found = tomllib.loads((files("frn.reproduce") / "tables.toml").read_text(encoding="utf-8"))
    runs: dict[str, RunSpec] = {}
    for name, entry in found["runs"].items():
        start = runs[entry.pop("init")] if "init" in entry else None
        runs[name] = RunSpec(name=name, options=RunOptions(**entry), init=start)
    return {name: _table(name, entry, runs) for name, entry in found["tables"].items()}


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
                own = entry.get("ci95", {}).get(str(shot), intervals.get(shot))
                published = entry.get("published", {}).get(str(shot), (figures.get(shot), own))
                cells[shot] = Cell(measurement, *published)
    name = entry.get("name", entry["runs"][-1].removesuffix("-5shot"))
    return Row(name=name, label=entry["label"], cells=dict(sorted(cells.items())))


TABLES = _read()


def find_table(name: str) -> Table:
    """Return a table by name.

    Raises:
        FrnError: if the table does not exist; the message suggests similar names.
    """
    if name in TABLES:
        return TABLES[name]
    near = difflib.get_close_matches(name, TABLES, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(TABLES)}."
    raise FrnError(f"unknown table {name!r}. {hint}")


def choose_rows(table: Table, names: Sequence[str]) -> list[Row]:
    """Return the rows with these names, or all rows if `names` is empty.

    Raises:
        FrnError: if the table has no such row.
    """
    known = [row.name for row in table.rows]
    for name in names:
        if name not in known:
            raise FrnError(f"table {table.name!r} has no row {name!r}. It has: {', '.join(known) or 'none to train'}.")
    return [row for row in table.rows if not names or row.name in names]
