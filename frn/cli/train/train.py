"""`frn train`: training with a preset."""

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from frn.cli.shell import console, options
from frn.cli.train.evaluate import describe

if TYPE_CHECKING:
    from frn.evaluation.accuracy import Result
    from frn.training.launch import PreparedRun
    from frn.training.presets import Preset
    from frn.training.runs.run import TrainState


@console.user_errors()
def train(
    preset: Annotated[
        str,
        typer.Argument(help="Preset from `frn presets`, or RECIPE.toml:STAGE.", autocompletion=options.preset_names),
    ],
    data: options.TrainingData = None,
    out: options.RunOut = None,
    method: options.Method = None,
    backbone: options.Backbone = None,
    batch: Annotated[int | None, typer.Option(min=2, help="Images per pre-training step.")] = None,
    way: options.Way = None,
    shot: options.Shot = None,
    queries: options.Queries = None,
    epochs: options.Epochs = None,
    lr: options.LearningRate = None,
    warm_up: options.WarmUp = None,
    aux: Annotated[
        Literal["reference", "paper", "off"] | None,
        typer.Option(help="Auxiliary loss; reference follows the authors' code."),
    ] = None,
    freeze: Annotated[
        Literal["none", "lambda", "rho", "both"] | None, typer.Option(help="FRN parameters to keep fixed.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.", show_default="0")] = None,
    precision: Annotated[
        options.PrecisionName | None,
        typer.Option(help="auto: fp32 for the paper's presets, else bf16 if fast.", show_default="auto"),
    ] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    resume: options.Resume = False,
    init: options.Init = None,
    config: options.RunConfig = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a model with a preset and keep the checkpoint with the best validation accuracy.

    A preset trains on episodes or pre-trains on all classes at once; continue from a pre-trained run with `--init RUN`.
    The preset `demo` needs no data. If --data is given several times, the first is used for validation.

    Ctrl-C saves and stops. `--resume` continues an interrupted run, even one that was killed, with bit-identical
    results. With a larger --epochs, `--resume` extends a run.
    """
    arguments = {name: value for name, value in locals().items() if name != "as_json"}
    from frn.training.runs.run_options import RunOptions

    wanted = RunOptions(**arguments).configured()
    wanted.check()  # before importing torch, to report a wrong option at once

    from frn.system.distributed import joined
    from frn.training.launch import prepare_run

    with joined(wanted.device) as ranks:
        run = prepare_run(wanted, command=console.command_line(), bars=console.progress_bar, ranks=ranks)
        position = _train(run)
    if not ranks.is_main:
        return
    tests = run.test()
    result = {"model": str(run.best), "validation": position.best, "seconds": round(position.seconds, 1)}
    if as_json:
        console.print_json({**result, "test": tests} if tests else result)
    else:
        _show_result(run, position, tests)


def _train(run: "PreparedRun") -> "TrainState":
    """Train to the end and show the progress; exit the program if the run is stopped."""
    from frn.cli.train.training_display import interruptible, training_display

    if not run.settings.ranks.is_main:
        with interruptible() as stopped:
            ended = run.train(lambda event: None, stopped)
        if not ended.finished:
            raise typer.Exit(console.INTERRUPTED)
        return ended.position
    console.report_skipped(run.broken)
    console.report_skipped(run.doubts, all_of_them="")
    console.note(str(run))
    with training_display(run.preset.schedule.epochs, run.options.folder) as display, interruptible() as stopped:
        ended = run.train(display, stopped)
    if not ended.finished:
        console.end_stopped_run(ended.position.total_steps)
    return ended.position


def _show_result(run: "PreparedRun", position: "TrainState", tests: "list[Result]") -> None:
    from frn.training.setup import validation_shape

    screen, preset = console.stdout(), run.preset
    screen.print(f"trained in {position.seconds / 60:.1f} minutes: {console.strong(run.best)}", markup=True)
    if preset.validation.split == "val":
        screen.print(f"validation: {validation_shape(preset, run.val_images)} {position.best:.2f}%")
    for test in tests:
        screen.print(f"test on unseen classes: {describe(test)}", markup=True)
    for path in run.options.data or []:
        if (path / "test").is_dir():
            console.suggest("frn", "eval", str(run.best), "--data", str(path))


@console.user_errors()
def presets(
    name: Annotated[str | None, typer.Argument(help="Show all settings of this preset.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the training presets of `frn train` and the accuracies that the paper reports."""
    from frn.training.presets import PRESETS, find_preset

    chosen = PRESETS if name is None else {name: find_preset(name)}
    values = {name: asdict(preset) for name, preset in chosen.items()}
    if as_json:
        console.print_json(values if name is None else values[name])
    elif name is None:
        _list(chosen)
    else:
        console.stdout().print_json(data=values[name], indent=1, highlight=False)


def _list(chosen: "dict[str, Preset]") -> None:
    rows: list[tuple[str, ...]] = []
    for _, family in groupby(chosen.items(), key=lambda entry: entry[1].data.prepare):
        rows += [()] if rows else []
        for name, preset in family:
            figures = preset.published.accuracy if preset.published else {}
            shown = [f"{figures[shot]:.2f}" if shot in figures else "" for shot in (1, 5)]
            step = f"{preset.episode} {preset.episode.queries}-query"
            if not preset.trains_on_episodes:
                step = f"batch {preset.pretraining.batch}"
            model, epochs = f"{preset.method} {preset.backbone}", str(preset.schedule.epochs)
            rows.append((name, model, step, epochs, *shown, preset.about))
    console.print_table(("preset", "model", "step", "epochs", "1-shot", "5-shot", "about"), rows)
    console.stdout().print(
        "\n1-shot, 5-shot: the paper's accuracies in percent. `frn presets NAME` shows a preset in full."
    )
