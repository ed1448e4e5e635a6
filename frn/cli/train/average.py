"""`frn average`: the mean of several runs' weights."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import stdout
from frn.cli.shell.output import FormatName, printed, prints_result
from frn.system.overwriting import require_writable


@prints_result()
def average(
    models: Annotated[list[Path], typer.Argument(help="Runs or model files that share one starting point.")],
    out: Annotated[Path, typer.Option(help="Model file to write: something.safetensors.")],
    replace: options.Replace = False,
    wants: FormatName = "table",
) -> None:
    """Average the weights of several runs.

    The average of runs with different seeds and the same `--init` can be more accurate than each run. Compare them with
    `frn eval --split val`.
    """
    from frn.errors import FrnError
    from frn.models.model import load_model, save_model
    from frn.models.soup import mean_model

    if out.suffix != ".safetensors":
        raise FrnError(f"{out}: a model file must end in .safetensors")
    require_writable(out, replace=replace)
    save_model(mean_model([load_model(model) for model in models]), out)
    if printed(wants, {"model": str(out), "mean_of": [str(model) for model in models]}):
        return
    stdout().print(f"{out}: the mean of {len(models)} models")
