"""Code shared by the benchmark scripts: fair timing, test photos, the authors' loops, and a pseudo-terminal."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from frn.cli.shell.console import print_json, print_table, stdout

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

AsJson = Annotated[bool, typer.Option("--json", help="Print the rows as one JSON list on stdout.")]
AnyRounds = Annotated[
    int | None,
    typer.Option("--rounds", min=1, help="Turns of each contestant.", show_default="15, and on for 3 seconds"),
]


def run(main: Callable[..., None]) -> None:
    """Run a script's command with one BLAS thread; libraries read these variables when they are loaded."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    typer.run(main)


def show(rows: Sequence[Mapping[str, object]], as_json: bool, note: str) -> None:
    """Print rows, which map the same columns to values, as JSON or as a table with a note below."""
    if as_json:
        print_json(rows)
        return
    print_table(list(rows[0]), ([_cell(value) for value in row.values()] for row in rows))
    stdout().print(note)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "" if value is None else str(value)
