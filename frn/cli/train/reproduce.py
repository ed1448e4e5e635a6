"""`frn reproduce`: reproduce a table of the paper row by row, with published and measured results."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import INTERRUPTED, note, print_json, print_table, stdout
from frn.errors import FrnError
from frn.system.files import require_writable, write_atomically

if TYPE_CHECKING:
    from frn.reproduce.table_report import Command, Locations
    from frn.reproduce.tables import Row, Table


def reproduce(
    table: Annotated[str | None, typer.Argument(help="Table to reproduce. Lists all tables if omitted.")] = None,
    row: Annotated[list[str] | None, typer.Option(help="Reproduce only this row. Repeatable.")] = None,
    data: Annotated[list[str] | None, typer.Option(metavar="[NAME=]DIR", help="Prepared data set. Repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for TABLE.md and TABLE.json.")] = Path("reproduced"),
    runs: Annotated[
        Path | None, typer.Option(help="Folder for training runs; finished runs are reused.", show_default="OUT/runs")
    ] = None,
    precision: Annotated[options.PrecisionName, typer.Option(help="Number format of new training runs.")] = "fp32",
    threads: options.Threads = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the remaining commands without running them.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce a table of the paper: train missing rows, resume unfinished ones, evaluate and compare all.

    Rows whose data set is not given are skipped. Ctrl-C saves and stops; repeat the command to continue. The table also
    contains rows that were measured earlier in the same --runs folder.
    """
    from msgspec import to_builtins

    from frn.reproduce.table_report import Locations, markdown, read, report, stored
    from frn.reproduce.tables import TABLES, choose_rows, find_table

    if table is None:
        if row:
            raise FrnError("--row needs a TABLE to reproduce.")
        if as_json:
            places = Locations(runs=runs or out / "runs")
            print_json([to_builtins(report(each, each.rows, places, {})) for each in TABLES.values()])
        else:
            _list(TABLES.values())
        return
    if dry_run and as_json:
        raise FrnError("--dry-run prints one command per line. Remove --json.")
    chosen = find_table(table)
    rows = choose_rows(chosen, row or [])
    folders = _folders(data or [], sorted(set().union(*(row.data_sets for row in rows))))
    words = ("--threads", str(threads)) if threads else ()
    locations = Locations(runs=runs or out / "runs", data=folders, options=words, precision=precision)
    written = {ending: out / f"{chosen.name}.{ending}" for ending in ("md", "json")}
    for path in written.values() if read(written["json"]) is None and not dry_run else ():
        require_writable(path)
    missing, failed = _run_rows(rows, locations, dry_run=dry_run)
    if dry_run:
        return
    shown = [row for row in chosen.rows if row in rows or all(stored(m, locations) for m in row.measurements)]
    tables = report(chosen, shown, locations, missing)
    page, result = markdown(tables), to_builtins(tables)
    write_atomically(written["md"], page, replace=True)
    write_atomically(written["json"], json.dumps(result, indent=1, ensure_ascii=False) + "\n", replace=True)
    if as_json:
        print_json(result)
    else:
        stdout().print(page, soft_wrap=True, end="")
    if failed:
        raise typer.Exit(1)


def _run_rows(rows: "list[Row]", locations: "Locations", *, dry_run: bool) -> tuple[dict[str, str], bool]:
    """Run or print the remaining commands of each row; return why rows are missing, and whether anything failed."""
    from frn.reproduce.table_report import MissingDataError, remaining_commands

    missing: dict[str, str] = {}
    printed: set[Command] = set()
    failed = False
    for number, row in enumerate(rows, 1):
        try:
            for command in remaining_commands(row, locations):
                if not dry_run:
                    note(f"[{number}/{len(rows)}] {command}")
                    run_command(command)
                elif command not in printed:
                    stdout().print(str(command), soft_wrap=True)
                    printed.add(command)
        except (MissingDataError, CommandError) as error:
            failed |= isinstance(error, CommandError)
            missing[row.name] = str(error)
            note(f"{row.name}: {error}")
    return missing, failed


class CommandError(FrnError):
    """Failure of a command that has already printed its error."""


def run_command(command: "Command") -> None:
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
        write_atomically(command.answer, answer, replace=True)


def _folders(words: list[str], wanted: list[str]) -> dict[str, Path]:
    """Return data set folders by name; a folder without a name belongs to the table's only data set."""
    folders = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals and len(wanted) == 1:
            name, path = wanted[0], word
        if name not in wanted:
            names = ", ".join(wanted) or "none"
            raise FrnError(f"--data {word}: write --data NAME=DIR, where NAME is a data set of these rows: {names}")
        if not Path(path).is_dir():
            raise FrnError(f"--data {word}: {path} is not a folder")
        folders[name] = Path(path)
    return folders


def _list(tables: "Iterable[Table]") -> None:
    from frn.reproduce.table_report import figure

    for table in tables:
        stdout().print(f"{table.name}: {table.title} ({table.source})")
        rows: list[tuple[str, str, str]] = []
        for row in table.rows:
            cells = {shot: figure(cell.published, cell.published_ci95) for shot, cell in row.cells.items()}
            accuracies = ", ".join(f"{shot}-shot {published}" for shot, published in cells.items() if published)
            rows.append((row.name, row.label, accuracies))
        rows += [(entry.label, entry.command, entry.published) for entry in table.elsewhere]
        print_table(("row", "", "published"), rows)
        stdout().print()
    stdout().print("`frn reproduce TABLE --dry-run` prints the commands of a table.")
