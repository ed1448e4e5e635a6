"""Code shared by the benchmark scripts: fair timing, test photos, the authors' loops, and a pseudo-terminal."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]
AnyRounds = Annotated[
    int | None,
    typer.Option("--rounds", min=1, help="Turns of each contestant.", show_default="15, and on for 3 seconds"),
]


def run(main: Callable[..., None]) -> None:
    """Run a script's command with one BLAS thread; libraries read these variables when they are loaded."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    typer.run(main)
