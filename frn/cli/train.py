"""`frn train`: episodic training by a preset."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from frn.cli.choices import Aux, Device, Method, PrecisionChoice, Regularisers
from frn.cli.console import INTERRUPTED, note, print_json, progress_bar, report_left_out, stdout, user_errors
from frn.cli.evaluate import describe
from frn.errors import FrnError
from frn.machine import leave_threads_to_torch

if TYPE_CHECKING:
    from frn.data.cache import StoredImages
    from frn.data.joined import JoinedImages
    from frn.evaluation.report import Result
    from frn.precision import Precision
    from frn.training.presets import Preset
    from frn.training.run_folder import Position

DEMO_CLASSES = {"train": 60, "val": 15, "test": 20}
DEMO_IMAGES = 24
FIXED: dict[str, tuple[Literal["lambda", "rho"], ...]] = {
    "none": (),
    "lambda": ("lambda",),
    "rho": ("rho",),
    "both": ("lambda", "rho"),
}

WarmUp = Annotated[
    int | None,
    typer.Option(min=0, help="Steps in which the learning rate rises to its first value.", show_default=False),
]


def train(
    preset: Annotated[str, typer.Argument(help="What to train; `frn presets` lists them. `demo` needs no data.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Data set: train/ and val/ with one folder per class. Repeatable: the first validates.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints and metrics.", show_default="runs/PRESET")
    ] = None,
    method: Annotated[Method | None, typer.Option(help="Another head than the preset's.", show_default=False)] = None,
    backbone: Annotated[str | None, typer.Option(help="conv4, resnet12 or resnet12-small.", show_default=False)] = None,
    way: Annotated[int | None, typer.Option(help="Classes per episode.", show_default=False)] = None,
    shot: Annotated[int | None, typer.Option(help="Support images per class.", show_default=False)] = None,
    queries: Annotated[int | None, typer.Option(help="Query images per class.", show_default=False)] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs; the milestones move along.", show_default=False)
    ] = None,
    warm_up: WarmUp = None,
    aux: Annotated[
        Aux | None,
        typer.Option(help="Auxiliary loss: as in the authors' code, as in the paper, or off.", show_default=False),
    ] = None,
    fix: Annotated[
        Regularisers | None,
        typer.Option(help="What FRN does not learn but keeps at its start.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, episodes and augmentation.")] = 0,
    precision: Annotated[PrecisionChoice, typer.Option(help="auto: bf16 where the processor has it.")] = "auto",
    device: Annotated[Device, typer.Option(help="auto: CUDA where it is.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.", show_default="all cores")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, bit for bit.")] = False,
    init: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Start from a model's weights.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout at the end.")] = False,
) -> None:
    """Train a model on episodes, validate it, keep the best.

    Ctrl-C saves and stops; `--resume` goes on as if nothing had happened, after a kill too.
    """
    leave_threads_to_torch()
    with user_errors():
        from frn.training.presets import find_preset

        chosen = _override(find_preset(preset), method, backbone, way, shot, queries, epochs, warm_up)
        fixed = chosen.fixed if fix is None else FIXED[fix]
        chosen = replace(chosen, aux=aux or chosen.aux, fixed=fixed)
        if chosen.objective != "episodes":
            raise FrnError(f"preset {preset!r} is pre-training: `frn pretrain {preset}` runs it")
        if chosen.init_from and init is None and not resume:
            raise FrnError(
                f"preset {preset!r} goes on from pre-training: `frn pretrain {chosen.init_from} --out RUN` first, then "
                "give its result by --init RUN"
            )
        _train(chosen, preset, data or [], out, seed, precision, device, threads, resume, init, as_json)


def pretrain(
    preset: Annotated[str, typer.Argument(help="What to pre-train; `frn presets` lists them.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Data set: train/ and val/ with one folder per class. Repeatable: the first validates.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints and metrics.", show_default="runs/PRESET")
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="conv4, resnet12 or resnet12-small.", show_default=False)] = None,
    batch: Annotated[int | None, typer.Option(min=2, help="Images per step.", show_default=False)] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs; the milestones move along.", show_default=False)
    ] = None,
    warm_up: WarmUp = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, batches and augmentation.")] = 0,
    precision: Annotated[PrecisionChoice, typer.Option(help="auto: bf16 where the processor has it.")] = "auto",
    device: Annotated[Device, typer.Option(help="auto: CUDA where it is.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads.", show_default="all cores")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, bit for bit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout at the end.")] = False,
) -> None:
    """Pre-train on all training classes at once, before episodes: with dummy maps (Sec. 3.6) or classically.

    `frn train PRESET --init RUN` then goes on with episodes from its backbone and temperature.
    """
    leave_threads_to_torch()
    with user_errors():
        from frn.training.presets import find_preset

        found = find_preset(preset)
        if found.objective == "episodes":
            raise FrnError(f"preset {preset!r} trains on episodes: `frn train {preset}` runs it")
        chosen = _override(found, None, backbone, None, None, None, epochs, warm_up)
        chosen = replace(chosen, batch=found.batch if batch is None else batch)
        _train(chosen, preset, data or [], out, seed, precision, device, threads, resume, None, as_json)


def _override(
    preset: "Preset",
    method: str | None,
    backbone: str | None,
    way: int | None,
    shot: int | None,
    queries: int | None,
    epochs: int | None,
    warm_up: int | None,
) -> "Preset":
    from frn.episodes import EpisodeShape
    from frn.training.presets import WITH_AUXILIARY_LOSS

    given = preset.episode
    schedule = preset.schedule.scaled_to(epochs) if epochs else preset.schedule
    return replace(
        preset,
        method=method or preset.method,
        aux_heads=preset.aux_heads if method in (None, preset.method) else (),
        aux=preset.aux if method is None or method in WITH_AUXILIARY_LOSS else "off",
        backbone=backbone or preset.backbone,
        episode=EpisodeShape(way=way or given.way, shot=shot or given.shot, queries=queries or given.queries),
        schedule=schedule if warm_up is None else replace(schedule, warm_up=warm_up),
    )


def _train(
    preset: "Preset",
    name: str,
    data: list[Path],
    given_out: Path | None,
    seed: int,
    precision: str,
    device: str,
    threads: int | None,
    resume: bool,
    init: str | None,
    as_json: bool,
) -> None:
    from frn.cli.training_display import TrainingDisplay, interruptible
    from frn.machine import cores, processor
    from frn.model import load_model
    from frn.precision import choose_device, choose_precision, set_threads
    from frn.training.loop import train as run
    from frn.training.run import RunSettings
    from frn.training.run_folder import RunFolder

    if preset.prepare is not None and not data:
        raise FrnError(
            f"preset {name!r} needs --data DIR with train/ and {preset.val_split}/ "
            f"(`frn data prepare {preset.prepare} --help` makes one). `frn train demo` needs none."
        )
    out = given_out or Path("runs") / name
    if not resume:
        RunFolder(out).require_free()  # before images are read
    set_threads(threads)
    where = choose_device(device)
    settings = RunSettings(
        seed=seed,
        precision=choose_precision(precision, where),
        device=where,
        command=shlex.join(["frn", *sys.argv[1:]]),
    )
    images, val_images = _splits(preset, data, seed)
    report_left_out([entry.reason for entry in images.broken + val_images.broken])
    steps = f"{preset.episode} with {preset.episode.queries} queries"
    if preset.objective != "episodes":
        steps = f"batches of {preset.batch}"
    note(
        f"{name}: {preset.method} on {preset.backbone}, {steps}, "
        f"{len(images)} images of {len(images.names)} classes, {settings.precision} on {where.type}, "
        f"{os.cpu_count() if threads is None else threads} threads"
    )
    with TrainingDisplay(preset, out) as display, interruptible() as stopped:
        trained = run(
            preset,
            images,
            val_images,
            out,
            settings,
            resume=resume,
            init=None if init is None else load_model(init),
            facts={
                "preset": name,
                "data": " and ".join(path.resolve().name for path in data) or "drawn moths",
                "split": "train",
                "machine": f"{processor()}, threads: {threads or cores()}",
            },
            report=display,
            stop=stopped,
        )
    if not trained.finished:
        words = [word for word in sys.argv[1:] if word != "--resume"]
        note(f"saved after {trained.position.total_steps} steps. Go on with: {shlex.join(['frn', *words, '--resume'])}")
        raise typer.Exit(INTERRUPTED)
    tests = _test_demo(out / "best.safetensors", seed, settings.precision) if preset.prepare is None else []
    if as_json:
        _print_result(out, trained.position, tests)
    else:
        _show_result(preset, data, out, trained.position, tests)


def _print_result(out: Path, position: "Position", tests: "list[Result]") -> None:
    result = {
        "model": str(out / "best.safetensors"),
        "validation": position.best,
        "seconds": round(position.seconds, 1),
    }
    print_json({**result, "test": tests} if tests else result)


def _show_result(preset: "Preset", data: list[Path], out: Path, position: "Position", tests: "list[Result]") -> None:
    console, best = stdout(), out / "best.safetensors"
    console.print(f"trained in {position.seconds / 60:.1f} minutes: [bold]{best}[/bold]")
    if preset.val_split == "val":
        console.print(f"validation: 5-way {preset.val_shot or preset.episode.shot}-shot {position.best:.2f} %")
    for test in tests:
        console.print(f"test on classes never seen: {describe(test)}")
    for path in data:
        if (path / "test").is_dir():
            console.print(f"next: frn eval {shlex.quote(str(best))} --data {shlex.quote(str(path))}")


def _splits(preset: "Preset", data: list[Path], seed: int) -> "tuple[StoredImages | JoinedImages, StoredImages]":
    if preset.prepare is None:
        return _demo_images("train", seed), _demo_images("val", seed)
    from frn.data.cache import load_images
    from frn.data.folders import scan, split_folder
    from frn.data.joined import JoinedImages

    train_folders = [scan(split_folder(path, "train")).without(preset.exclude_classes) for path in data]
    val_folders = scan(split_folder(data[0], preset.val_split))
    parts = []
    for folders in train_folders:
        with progress_bar("decoding train") as progress:
            parts.append(load_images(folders, preset.max_side, progress=progress))
    with progress_bar(f"decoding {preset.val_split}") as progress:
        val_images = load_images(val_folders, preset.transform, progress=progress)
    return parts[0] if len(parts) == 1 else JoinedImages(tuple(parts)), val_images


def _demo_images(split: str, seed: int) -> "StoredImages":
    from frn.data.moths import draw_classes

    offset = 3 * seed + list(DEMO_CLASSES).index(split)  # every split and seed has species of its own
    return draw_classes(DEMO_CLASSES[split], DEMO_IMAGES, size=32, seed=offset)


def _test_demo(best: Path, seed: int, precision: "Precision") -> "list[Result]":
    from frn.episodes import EpisodeShape
    from frn.evaluation.report import evaluate_images
    from frn.model import load_model

    shapes = [EpisodeShape(way=5, shot=shot, queries=16) for shot in (1, 5)]
    model = load_model(best)
    return evaluate_images(model, _demo_images("test", seed), shapes, episodes=2000, seed=0, precision=precision)
