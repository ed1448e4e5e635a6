"""Plot the loss and accuracy of training runs, including ones in progress.

python assets/benchmarks/curves.py runs/frn runs/proto --out curves.png --out curves.svg
"""

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from frn.cli.shell import options
from frn.cli.shell.console import user_errors
from frn.errors import FrnError
from frn.system.files import MARK, MAX_LINES, read_regular, require_writable, write_atomically

METRICS = "metrics.jsonl"
FORMATS = (".png", ".svg", ".pdf")
METADATA = {
    ".png": {"Software": MARK},
    ".svg": {"Date": None, "Creator": MARK},
    ".pdf": {"CreationDate": None, "Creator": MARK},
}
"""Metadata that names the program but contains no timestamp."""
WINDOWS = 100
"""Each curve is smoothed over a window of 1 / `WINDOWS` of its steps."""

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves of one run; each curve is a pair of steps and values."""

    name: str
    loss: tuple[Values, Values]
    accuracy: tuple[Values, Values]
    """Accuracy of training episodes, in percent."""
    validation: tuple[Values, Values]
    """Validation accuracy in percent, one value per validation."""


def read_curves(folder: Path) -> Curves:
    """Read the curves of a run folder. Raises FrnError if the folder contains no run or no numbers."""
    path = folder / METRICS
    if not path.exists():
        raise FrnError(f"{folder}: is not a run folder: it has no {path.name}")
    text = read_regular(path, MAX_LINES).decode(errors="replace")
    lines = []
    for line in text.splitlines():
        try:
            lines.append(dict(json.loads(line)))
        except (ValueError, TypeError, RecursionError):
            continue  # the last line is incomplete if the run is in progress or was killed

    def curve(name: str) -> tuple[Values, Values]:
        points = [(line.get("total_steps"), line.get(name)) for line in lines]
        numbers = [point for point in points if all(map(_is_number, point))]
        steps, values = np.array(numbers, dtype=np.float64).reshape(-1, 2).T
        return steps, values

    found = Curves(folder.resolve().name, curve("loss"), curve("accuracy"), curve("val_accuracy"))
    if not len(found.loss[0]):
        raise FrnError(f"{path}: has no training step yet")
    return found


def _is_number(value: object) -> bool:
    """Return whether a JSON value is a finite number that float64 can represent."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 1 << 63)


def smooth(values: Values, width: int) -> Values:
    """Return the mean of the last `width` values at each position; at the beginning there are fewer values."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - width)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def draw_curves(runs: Sequence[Curves], kind: str) -> bytes:
    """Return a plot of the loss and accuracy of runs over their steps, as a file of one of `FORMATS`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # pyplot would try to open a display

    with rc_context({"svg.hashsalt": "frn", "svg.fonttype": "none"}):  # equal curves give equal bytes
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for number, run in enumerate(runs):
            colour = f"C{number}"
            _line(left, run.loss, colour, label=run.name)
            _line(right, run.accuracy, colour, alpha=0.5)
            steps, values = run.validation
            right.plot(steps, values, color=colour, marker="o", markersize=4, label=run.name)
        for axes, title in ((left, "training loss"), (right, "accuracy in percent (dots: validation)")):
            axes.set(xlabel="steps", title=title)
            axes.grid(alpha=0.3)
        if len(runs) > 1:
            left.legend()
        elif runs:
            figure.suptitle(runs[0].name)
        picture = io.BytesIO()
        figure.savefig(picture, format=kind.removeprefix("."), dpi=150, metadata=METADATA[kind])
    return picture.getvalue()


def _line(axes: Any, curve: tuple[Values, Values], colour: str, **style: Any) -> None:
    steps, values = curve
    axes.plot(steps, smooth(values, max(1, len(values) // WINDOWS)), color=colour, linewidth=1.2, **style)


def main(
    runs: Annotated[list[Path], typer.Argument(help="Run folders to draw in one plot.")],
    out: Annotated[list[Path], typer.Option(help="Plot to write: .png, .svg or .pdf. Repeatable.")],
    replace: options.Replace = False,
) -> None:
    """Plot the loss and the accuracies of runs."""
    with user_errors():
        for path in out:
            if path.suffix.lower() not in FORMATS:
                raise FrnError(f"{path}: a picture must end in {' or '.join(FORMATS)}")
            require_writable(path, replace=replace)
        curves = [read_curves(run) for run in runs]
        for path in out:
            write_atomically(path, draw_curves(curves, path.suffix.lower()), replace=replace)
            print(path)


if __name__ == "__main__":
    typer.run(main)
