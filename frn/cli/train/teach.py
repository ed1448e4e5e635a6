"""`frn teach`: a student of stronger networks."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import command_line, end_stopped_run, note, progress_bar, stdout, strong
from frn.cli.shell.output import FormatName, printed, prints_result
from frn.models.zoo import DEFAULT_MODEL

EVERY = 100
"""Steps between two lines of progress."""


@prints_result()
def teach(
    recipe: Annotated[
        Path | None, typer.Argument(help="TOML file of settings.", show_default="frn.training.teaching.teaching_recipe")
    ] = None,
    data: Annotated[
        list[Path] | None, typer.Option(help="Data set with train/, in the recipe's order. Repeatable.")
    ] = None,
    photos: Annotated[
        list[Path] | None, typer.Option(help="Folder of folders of unlabelled photos. Repeatable.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights of the teacher.", show_default="those of its package")
    ] = None,
    init: Annotated[str, typer.Option(metavar="MODEL", help="Start from the weights of this model.")] = DEFAULT_MODEL,
    out: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics.")] = Path("runs/teach"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    compiled: options.Compile = False,
    resume: options.Resume = False,
    wants: FormatName = "table",
) -> None:
    """Distil stronger networks into the default model's backbone, mostly on unlabelled photos.

    The teachers' outputs are computed once per photo and stored. The student learns from them and from episodes.
    """
    from frn.cli.train.training_display import interruptible
    from frn.training.teaching.prepare_teaching import prepare_teaching

    run = prepare_teaching(
        recipe, data or [], photos or [], weights, init, out, seed=seed, precision=precision, compiled=compiled,
        resume=resume, command=command_line(), bars=progress_bar,
    )  # fmt: skip

    def report(step: int, losses: dict[str, float]) -> None:
        if step % EVERY == 0:
            note(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in losses.items()))

    with interruptible() as stopped, progress_bar("asking the teachers") as progress:
        ended = run(report=report, progress=progress, stop=stopped)
    if not ended.finished:
        end_stopped_run(ended.position.total_steps)
    best = out / "best.safetensors"
    if not printed(wants, {"model": str(best), "seconds": round(ended.position.seconds, 1)}):
        stdout().print(f"taught in {ended.position.seconds / 60:.1f} minutes: {strong(best)}", markup=True)
