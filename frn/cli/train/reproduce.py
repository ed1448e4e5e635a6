"""`frn reproduce`: reproduce a table of the paper row by row, with published and measured results."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frn.cli.shell import options
from frn.cli.shell.console import INTERRUPTED, note, stdout
from frn.cli.shell.output import FormatName, printed, prints_result, rows_of
from frn.cli.shell.output import Row as CsvRow
from frn.errors import FrnError
from frn.system.files import write_atomically
from frn.system.overwriting import require_writable

if TYPE_CHECKING:
    from frn.reproduce.plan import Command, Locations
    from frn.reproduce.rows import Row, Table


@prints_result()
def reproduce(
    table: Annotated[str | None, typer.Argument(help="Table to reproduce; see --list.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the tables and their rows.")] = False,
    row: Annotated[list[str] | None, typer.Option(help="Reproduce only this row. Repeatable.")] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="[NAME=]DIR", help="Prepared data set. Repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for TABLE.md and TABLE.json.")] = Path("reproduced"),
    runs: Annotated[
        Path | None, typer.Option(help="Folder for training runs; finished runs are reused.", show_default="OUT/runs")
    ] = None,
    precision: Annotated[options.PrecisionName, typer.Option(help="Number format of new training runs.")] = "fp32",
    threads: options.Threads = None,
    device: options.Device = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the remaining commands without running them.")
    ] = False,
    wants: FormatName = "table",
) -> None:
    """Reproduce a table of the paper: train missing rows, resume unfinished ones, evaluate and compare all.

    Rows whose data set is not given are skipped. Ctrl-C saves and stops; repeat the command to continue. Rows that are
    already in OUT/TABLE.json are kept, even if their runs were deleted.
    """
    from msgspec import to_builtins

    from frn.reproduce.plan import Locations, unmeasured
    from frn.reproduce.table_page import markdown
    from frn.reproduce.table_report import read, report
    from frn.reproduce.tables import TABLES, choose_rows, find_table

    if list_all or table is None:
        if row:
            raise FrnError("--row needs a TABLE to reproduce. Remove it or --list.")
        _list([find_table(table)] if table else list(TABLES.values()), wants)
        return
    chosen = find_table(table)
    rows = choose_rows(chosen, row or [])
    folders = _folders(data or [], sorted(set().union(*(row.data_sets for row in rows))))
    given = {"--threads": threads, "--device": None if device == "auto" else device}
    options = tuple(word for option, value in given.items() if value for word in (option, str(value)))
    locations = Locations(runs=runs or out / "runs", data=folders, options=options, precision=precision)
    before = read(out / f"{chosen.name}.json")
    for ending in ("md", "json") if before is None and not dry_run else ():
        require_writable(out / f"{chosen.name}.{ending}")
    to_run = [row for row in rows if not (before and before.has(row) and unmeasured(row, locations))]
    if dry_run:
        _print_commands(to_run, locations, wants)
        return
    missing, failed = _run_rows(to_run, locations)
    before = read(out / f"{chosen.name}.json")  # again: another `frn reproduce` may have added rows
    others = [row for row in chosen.rows if row not in rows]
    known = [row for row in chosen.rows if before and before.has(row)]
    excused = {line.row for line in before.rows if line.missing} if before else set()
    known += [row for row in others if row.name in excused]
    kept = [row for row in known if unmeasured(row, locations)]
    found = report(chosen, [row for row in chosen.rows if row in rows or row in known], locations, missing)
    if before and kept:
        found = found.with_rows_of(before, kept)
    page = markdown(found, chosen)
    write_atomically(out / f"{chosen.name}.md", page)
    result = to_builtins(found)
    write_atomically(out / f"{chosen.name}.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if not printed(wants, result, [row for line in result["rows"] for row in _figures(found.table, line)]):
        stdout().print(page, soft_wrap=True, end="")
    if failed:
        raise typer.Exit(1)


def _print_commands(rows: "list[Row]", locations: "Locations", wants: FormatName) -> None:
    """Print the remaining commands of the rows, each once."""
    from frn.reproduce.plan import MissingDataError, remaining_commands

    commands: dict[str, None] = {}
    for row in rows:
        try:
            commands |= dict.fromkeys(map(str, remaining_commands(row, locations)))
        except MissingDataError as error:
            note(f"{row.name}: {error}")
    if not printed(wants, [{"command": command} for command in commands]):
        for command in commands:
            stdout().print(command, soft_wrap=True)


def _run_rows(rows: "list[Row]", locations: "Locations") -> tuple[dict[str, str], bool]:
    """Run the remaining commands of each row; return why rows are missing, and whether anything failed."""
    from frn.reproduce.plan import MissingDataError, remaining_commands

    missing: dict[str, str] = {}
    failed = False
    for number, row in enumerate(rows, 1):
        try:
            for command in remaining_commands(row, locations):
                note(f"[{number}/{len(rows)}] {command}")
                _run(command)
        except (MissingDataError, CommandError) as error:
            failed |= isinstance(error, CommandError)
            missing[row.name] = str(error)
            note(f"{row.name}: {error}")
    return missing, failed


class CommandError(FrnError):
    """Failure of a command that has already printed its error."""


def _run(command: "Command") -> None:
    """Run a command as a child process, with its progress on stderr. Raises CommandError if the command fails."""
    # Ctrl-C also reaches the child, which saves and stops; wait for it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with subprocess.Popen([sys.executable, "-m", "frn", *command.words], stdout=subprocess.PIPE) as process:
            answer, _ = process.communicate()
    finally:
        signal.signal(signal.SIGINT, before)
    if process.returncode == INTERRUPTED:
        note("stopped. Repeat the command to continue.")
        raise typer.Exit(INTERRUPTED)
    if process.returncode:
        raise CommandError(f"`{command}` failed with status {process.returncode}; its message is above")
    if command.answer:
        write_atomically(command.answer, answer)


def _folders(given: list[str], wanted: list[str]) -> dict[str, Path]:
    """Return data set folders by name; a folder without a name belongs to the table's only data set.

    Prints a note about each folder that no row needs. Raises FrnError if the name is missing or unknown, or the folder
    does not exist.
    """
    from frn.reproduce.tables import TABLES

    folders = {}
    for word in given:
        name, equals, path = word.partition("=")
        if not equals:
            if len(wanted) != 1:
                raise FrnError(
                    f"--data {word}: write --data NAME=DIR, where NAME is one of: {', '.join(wanted) or 'none'}"
                )
            name, path = wanted[0], word
        elif name not in set().union(*(row.data_sets for table in TABLES.values() for row in table.rows)):
            raise FrnError(
                f"--data {word}: no table uses a data set named {name!r} (these rows use {', '.join(wanted)})"
            )
        elif name not in wanted:
            note(f"--data {word}: not needed; these rows use {', '.join(wanted)}")
        if not Path(path).is_dir():
            raise FrnError(f"--data {word}: {path} is not a folder")
        folders[name] = Path(path)
    return folders


def _figures(table: str, line: dict[str, Any]) -> list[CsvRow]:
    """Return flat rows of a table, one for each shot."""
    return [
        {"table": table, "row": line["row"], "label": line["label"], "shot": shot, **figure}
        for shot, figure in line["figures"].items()
    ]


def _list(tables: "list[Table]", wants: FormatName) -> None:
    from msgspec import to_builtins
    from rich.table import Table as Grid
    from rich.text import Text

    from frn.reproduce.table_page import figure
    from frn.reproduce.table_report import described

    listed = to_builtins([described(table) for table in tables])
    if printed(wants, listed, [{"table": t["table"], **row} for t in listed for row in rows_of(t["rows"])]):
        return
    console = stdout()
    for table in tables:
        console.print(Text.assemble((table.name, "bold"), f"  {table.title} ({table.source})"))
        grid = Grid(box=None, show_header=False, pad_edge=True)
        for row in table.rows:
            told = (
                f"{shot}-shot {figure(cell.published, cell.published_ci95)}"
                for shot, cell in row.cells.items()
                if cell.published is not None
            )
            grid.add_row(Text(row.name, no_wrap=True), row.label, ", ".join(told))
        for entry in table.elsewhere:
            grid.add_row("", entry.label, entry.published, Text(entry.command))
        console.print(grid)
        console.print()
    console.print(
        "These are the published figures. `frn reproduce TABLE --list --json` lists the commands for each row."
    )
