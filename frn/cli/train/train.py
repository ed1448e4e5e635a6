"""`frn train` and `frn finetune`: training with a preset, or on your own photos."""

import time
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from frn.cli.shell import console, options
from frn.cli.train.evaluate import describe
from frn.models.zoo import DEFAULT_MODEL, resolve

if TYPE_CHECKING:
    from frn.evaluation.accuracy import Result
    from frn.training.launch import PreparedRun
    from frn.training.presets import Preset
    from frn.training.runs.run import TrainState

NOTHING_WRITTEN = 3  # exit status of `frn finetune` if the adapted model is not worth writing


def train(
    preset: Annotated[
        str,
        typer.Argument(help="Preset from `frn presets`, or RECIPE.toml:STAGE.", autocompletion=options.preset_names),
    ],
    data: options.TrainingData = None,
    out: options.RunOut = None,
    method: options.Method = None,
    backbone: options.Backbone = None,
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
    wanted.check()  # before importing torch, to report a wrong option immediately

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


def finetune(
    classes: Annotated[Path, typer.Argument(help="Class folders, zip, CSV or project, as for `frn classify`.")],
    model: Annotated[str, typer.Option(help="Model to start from: name, model file or run folder.")] = DEFAULT_MODEL,
    out: Annotated[Path, typer.Option(help="Folder for the fine-tuned model.")] = Path("runs/finetune"),
    level: options.Level = None,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Adapt any model to your classes, if this makes it more accurate.

    The command measures the gain on held-out photos of your classes: each quarter of the photos is classified by the
    others, with the unchanged model and with the adapted one. It writes a model only if the gain is 2 points or more.
    For the gain to expect on other photos, each quarter is also classified as the other quarters choose.

    If no model is written, the exit status is 3.
    """
    started = time.monotonic()
    resolve(model)  # before importing torch or reading photos, to report a wrong name immediately

    from frn.estimator.loading import load_extractor
    from frn.evaluation import finetuning
    from frn.projects.class_files import class_files
    from frn.training.runs.run import RunFolder

    contents, folder = class_files(classes, level), RunFolder(out)
    folder.require_free()
    with console.live_text(f"fine-tuning on {sum(map(len, contents.members.values())):,} photos"):
        tuned = finetuning.finetune(load_extractor(model, device), contents.members)
        if tuned.refusal is None:
            accuracy = {"accuracy": tuned.validation.mean, "ci95": tuned.validation.ci95}
            record = {"finetuned_from": model, "validation": {**accuracy, "shape": "held-out photos of its classes"}}
            finetuning.write_finetuned(model, tuned, folder.best, record)
    console.report_skipped([*contents.notes, *contents.skipped, *map(str, tuned.broken)])
    seconds, why = round(time.monotonic() - started, 1), tuned.refusal
    if as_json:
        result = {"model": str(folder.best) if why is None else model, "written": why is None, "why": why}
        gains = {"gain": tuned.gain.mean, "expected_gain": tuned.expected.mean}
        accuracies = {"start": tuned.start.mean, "validation": tuned.validation.mean}
        console.print_json({**result, **accuracies, **gains, "seconds": seconds})
    else:
        screen = console.stdout()
        screen.print(
            f"{tuned.gain.episodes} held-out photos: {tuned.start.mean:.1f}% correct with {console.printable(model)}, "
            f"{tuned.gain.mean:+.1f} ± {tuned.gain.ci95:.1f} points fine-tuned"
        )
        screen.print(
            f"expected on other photos: [bold]{tuned.expected.mean:+.1f}[/bold] ± {tuned.expected.ci95:.1f} points "
            "(chosen and measured on different photos)",
            markup=True,
        )
        if why is None:
            screen.print(f"fine-tuned in {seconds:.0f} seconds: {console.strong(folder.best)}", markup=True)
        else:
            screen.print(f"Fine-tuning is not worth it: {why}. Nothing was written.")
        console.suggest("frn", "classify", str(classes), "PHOTO", "--model", str(out) if why is None else model)
    if why is not None:
        raise typer.Exit(NOTHING_WRITTEN)


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
