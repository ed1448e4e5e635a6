"""`frn plot`: plots of training runs."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import printable, stdout
from frn.cli.shell.output import FormatName, printed, prints_result
from frn.system.overwriting import require_writable


@prints_result(csv=True)
def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run folders to draw in one plot.")],
    out: Annotated[
        list[Path] | None,
        typer.Option(help="Plot to write: .png, .svg or .pdf. Repeatable.", show_default="curves.png and curves.svg"),
    ] = None,
    replace: options.Replace = False,
    wants: FormatName = "table",
) -> None:
    r"""Plot the loss and the accuracies of runs.

    Runs may still be training. Plotting needs matplotlib: `pip install '.\[plots]'`. --csv and --json print the
    validation accuracies instead; give --out to also write a plot.
    """
    from frn.errors import FrnError
    from frn.report.curves import FORMATS, draw_curves, read_curves
    from frn.system.files import write_atomically

    paths = out or ([] if wants != "table" else [Path("curves.png"), Path("curves.svg")])
    for path in paths:
        if path.suffix.lower() not in FORMATS:
            raise FrnError(f"{path}: an image name must end in {' or '.join(FORMATS)}")
        require_writable(path, replace=replace)
    curves = [read_curves(run) for run in runs]
    for path in paths:
        write_atomically(path, draw_curves(curves, path.suffix.lower()))
    points = [
        {"run": run.name, "total_steps": int(step), "val_accuracy": accuracy}
        for run in curves
        for step, accuracy in zip(*run.validation, strict=True)
    ]
    if printed(wants, points):
        return
    for path in paths:
        stdout().print(printable(str(path)))
