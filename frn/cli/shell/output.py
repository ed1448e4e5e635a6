"""Output formats for results: a table for people, CSV rows or one JSON value for programs."""

import functools
import inspect
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from frn.cli.shell.console import print_json, printable, user_errors
from frn.errors import FrnError
from frn.report.csv_rows import CsvWriter

FormatName = Literal["table", "csv", "json"]
Row = Mapping[str, object]


def _unless_typed(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Ignore a default from an environment variable if the user typed a format; click processes typed options first."""
    source = context.get_parameter_source(str(parameter.name))
    gives_way = source is not None and source.name != "COMMANDLINE" and any(map(context.params.get, FORMATS))
    return (None if parameter.name == "form" else False) if gives_way else value


FORMATS: dict[str, Any] = {
    "form": Annotated[
        FormatName | None, typer.Option("--format", help="Output format.", show_default="table", callback=_unless_typed)
    ],
    "as_json": Annotated[bool, typer.Option("--json", help="Short for --format json.", callback=_unless_typed)],
    "as_csv": Annotated[bool, typer.Option("--csv", help="Short for --format csv.", callback=_unless_typed)],
}
"""Options that choose the output format."""


def prints_result(*, csv: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add --format, --json and optionally --csv to a command; pass the choice as `wants` and show one-line errors."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            with user_errors():
                asked = {name: options.pop(name, None) for name in FORMATS}
                command(**options, wants=chosen_format(**asked))

        signature = inspect.signature(command)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "wants"]
        for name, kind in FORMATS.items():
            if csv or name != "as_csv":
                default = None if name == "form" else False
                own.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
        run.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return run

    return wrap


def chosen_format(form: FormatName | None, as_json: bool, as_csv: bool) -> FormatName:
    """Return the format chosen by `--format`, `--json` and `--csv`. Raises FrnError if they contradict each other."""
    flags: dict[FormatName, bool] = {"json": as_json, "csv": as_csv}
    asked = {name: f"--{name}" for name, is_asked in flags.items() if is_asked}
    if form is not None:
        asked.setdefault(form, f"--format {form}")
    if len(asked) > 1:
        raise FrnError(f"{' and '.join(asked.values())} both print to stdout. Use one of them.")
    return next(iter(asked), "table")


def printed(form: FormatName, value: Any, rows: Sequence[Row] | None = None) -> bool:
    """Print a result as JSON, or its rows (by default from `rows_of`) as CSV; return False if a table is wanted."""
    if form == "json":
        print_json(value)
    elif form == "csv":
        write_rows(rows_of(value) if rows is None else rows)
    return form != "table"


def write_rows(rows: Sequence[Row]) -> None:
    """Print rows as comma-separated values on stdout; the header lists every column that occurs."""
    writer = csv_writer(list(dict.fromkeys(name for row in rows for name in row)))
    for row in rows:
        writer.write(row)


def csv_writer(columns: Sequence[str]) -> CsvWriter:
    """Write comma-separated values to stdout; on a terminal, escape control characters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(newline="")  # rows have their own line endings
    escapes = sys.stdout.isatty()
    return CsvWriter(sys.stdout, columns, lambda v: printable(v) if escapes and isinstance(v, str) else v)


def rounded(value: Any) -> Any:
    """Return a result with numbers rounded to six decimals, and null instead of NaN."""
    if isinstance(value, Mapping):
        return {name: rounded(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    return value


def rows_of(value: Any) -> list[Row]:
    """Flatten a JSON value into rows: one per element of an array or per object with a name, otherwise one."""
    if isinstance(value, list):
        return [dict(_flat(entry)) for entry in value]
    if value and all(isinstance(entry, Mapping) for entry in value.values()):
        return [{"name": name, **_flat(entry)} for name, entry in value.items()]
    return [_flat(value)]


def _flat(value: Mapping[str, Any]) -> dict[str, object]:
    """Flatten nested objects by joining their names; arrays become JSON."""
    row: dict[str, object] = {}
    for name, entry in value.items():
        if isinstance(entry, Mapping):
            row |= {f"{name}_{part}": content for part, content in _flat(entry).items()}
        else:
            row[name] = json.dumps(entry, ensure_ascii=False) if isinstance(entry, list | tuple) else entry
    return row
