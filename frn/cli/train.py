"""`frn train` and `frn pretrain`: a run by a preset."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from frn.cli import options
from frn.cli.console import (
    command_line,
    end_stopped_run,
    note,
    print_json,
    progress_bar,
    report_left_out,
    stdout,
    user_errors,
)
from frn.cli.evaluate import describe
from frn.hardware import leave_threads_to_torch

if TYPE_CHECKING:
    from frn.evaluation.report import Result
    from frn.training.launch import PreparedRun
    from frn.training.run_folder import Position


def train(
    preset: Annotated[str, typer.Argument(help="What to train; `frn presets` lists them. `demo` needs no data.")],
    data: options.TrainingData = None,
    out: options.RunOut = None,
    method: Annotated[
        options.MethodName | None, typer.Option(help="Another head than the preset's.", show_default=False)
    ] = None,
    backbone: options.Backbone = None,
    way: Annotated[int | None, typer.Option(min=2, help="Classes per episode.", show_default=False)] = None,
    shot: Annotated[int | None, typer.Option(min=1, help="Support images per class.", show_default=False)] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Query images per class.", show_default=False)] = None,
    epochs: options.Epochs = None,
    warm_up: options.WarmUp = None,
    aux: Annotated[
        Literal["reference", "paper", "off"] | None,
        typer.Option(help="Auxiliary loss: as in the authors' code, as in the paper, or off.", show_default=False),
    ] = None,
    fix: Annotated[
        Literal["none", "lambda", "rho", "both"] | None,
        typer.Option(help="What FRN does not learn but keeps at its start.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, episodes and augmentation.")] = 0,
    precision: options.Precision = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    resume: options.Resume = False,
    init: options.Init = None,
    as_json: options.AsJsonAtEnd = False,
) -> None:
    """Train a model on episodes, validate it, keep the best.

    Ctrl-C saves and stops; `--resume` goes on as if nothing had happened, after a kill too.
    """
    _run(locals(), episodes=True)


def pretrain(
    preset: Annotated[str, typer.Argument(help="What to pre-train; `frn presets` lists them.")],
    data: options.TrainingData = None,
    out: options.RunOut = None,
    backbone: options.Backbone = None,
    batch: Annotated[int | None, typer.Option(min=2, help="Images per step.", show_default=False)] = None,
    epochs: options.Epochs = None,
    warm_up: options.WarmUp = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, batches and augmentation.")] = 0,
    precision: options.Precision = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    resume: options.Resume = False,
    init: options.Init = None,
    as_json: options.AsJsonAtEnd = False,
) -> None:
    """Pre-train on all training classes at once, before episodes: with dummy maps (Sec. 3.6) or classically.

    `frn train PRESET --init RUN` then goes on with episodes from its backbone and temperature.
    """
    _run(locals(), episodes=False)


def _run(given: dict[str, Any], *, episodes: bool) -> None:
    """Run what a command was given: the fields of `RunOptions`, and `as_json`."""
    as_json = given.pop("as_json")
    leave_threads_to_torch()
    with user_errors():
        from frn.training.options import RunOptions

        wanted = RunOptions(**given)
        wanted.check(episodes=episodes)  # before torch: a wrong option is told at once

        from frn.cli.training_display import TrainingDisplay, interruptible
        from frn.training.launch import prepare_run

        run = prepare_run(wanted, command=command_line(), bars=progress_bar)
        report_left_out(run.broken)
        note(str(run))
        with TrainingDisplay(run.preset, wanted.folder) as display, interruptible() as stopped:
            ended = run.train(display, stopped)
        if not ended.finished:
            end_stopped_run(ended.position.total_steps)
        tests = run.test()
    position = ended.position
    if as_json:
        result = {"model": str(run.best), "validation": position.best, "seconds": round(position.seconds, 1)}
        print_json({**result, "test": tests} if tests else result)
    else:
        _show_result(run, position, tests)


def _show_result(run: "PreparedRun", position: "Position", tests: "list[Result]") -> None:
    console, preset = stdout(), run.preset
    console.print(f"trained in {position.seconds / 60:.1f} minutes: [bold]{run.best}[/bold]")
    if preset.validation.split == "val":
        shot = preset.validation.shot or preset.episode.shot
        console.print(f"validation: 5-way {shot}-shot {position.best:.2f} %")
    for test in tests:
        console.print(f"test on classes never seen: {describe(test)}")
    for path in run.options.data or []:
        if (path / "test").is_dir():
            console.print(f"next: frn eval {shlex.quote(str(run.best))} --data {shlex.quote(str(path))}")
