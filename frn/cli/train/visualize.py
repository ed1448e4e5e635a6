"""`frn visualize`: images regenerated from reconstructions (the paper's decoder)."""

import io
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import (
    command_line,
    end_stopped_run,
    note,
    print_table,
    progress_bar,
    report_skipped,
    stdout,
    strong,
    suggest,
)
from frn.cli.shell.output import FormatName, printed, prints_result
from frn.system.overwriting import require_writable

app = typer.Typer(no_args_is_help=True, help="Turn feature maps and reconstructions back into images.")

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Model name, model file or run folder.")]


@app.command()
@prints_result()
def train(
    model: ModelName,
    data: options.SplitData,
    out: Annotated[Path, typer.Option(help="Folder for the decoder and its metrics.")],
    split: options.Split = "train",
    epochs: Annotated[int, typer.Option(min=1, help="Number of training steps.")] = 200,
    batch: Annotated[int, typer.Option(min=2, help="Images per step.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    resume: options.Resume = False,
    wants: FormatName = "table",
) -> None:
    """Train a decoder that turns a frozen model's feature maps back into images.

    Ctrl-C saves and stops; `--resume` continues.
    """
    from frn.cli.train.training_display import interruptible
    from frn.data.folders import scan, split_folder
    from frn.data.pixel_cache import load_images
    from frn.models.model import load_model
    from frn.system.precision import choose_device, choose_precision, set_threads
    from frn.training.decoder.fit_decoder import DecoderSchedule, train_decoder
    from frn.training.runs.run import RunSettings
    from frn.training.runs.run_folder import RunFolder

    if not resume:
        RunFolder(out).require_free()
    folders = scan(split_folder(data, split))
    set_threads(threads)
    where = choose_device(device)
    loaded = load_model(model)
    with progress_bar(f"decoding {split}") as decoding:
        images = load_images(folders, loaded.config.transform, progress=decoding)
    report_skipped(images.broken)
    numbers = choose_precision(precision, where)
    settings = RunSettings(seed=seed, precision=numbers, device=where, resume=resume, command=command_line())
    schedule = DecoderSchedule(epochs=epochs, batch=batch)
    note(f"decoder of {model}: {len(images)} images, {settings.precision} on {where.type}")
    with progress_bar("training") as progress, interruptible() as stopped:
        trained = train_decoder(loaded, images, out, schedule, settings, progress=progress, stop=stopped)
    if not trained.finished:
        end_stopped_run(trained.position.total_steps)
    seconds = round(trained.position.seconds, 1)
    if printed(wants, {"decoder": str(out), "steps": trained.position.total_steps, "seconds": seconds}):
        return
    told = f"trained {trained.position.total_steps} steps in {seconds / 60:.1f} minutes: {strong(out)}"
    stdout().print(told, markup=True)
    suggest("frn", "visualize", "render", model, "--decoder", str(out), "--data", str(data), "--out", "grid.png")


@app.command()
@prints_result()
def render(
    model: ModelName,
    decoder: Annotated[Path, typer.Option(help="Decoder from `frn visualize train` for this model.")],
    data: options.SplitData,
    out: Annotated[Path, typer.Option(help="Image of the grid to write (.png).")],
    split: options.Split = "val",
    way: Annotated[int, typer.Option(min=2, help="Classes per episode; the grid shows up to three.")] = 5,
    shot: Annotated[int, typer.Option(min=1, help="Support images per class.")] = 5,
    columns: Annotated[int, typer.Option(min=1, help="Query images in the grid.")] = 6,
    trials: Annotated[int, typer.Option(min=2, help="Random episodes to measure the errors on.")] = 1000,
    seed: options.EpisodeSeed = 0,
    device: options.Device = "auto",
    threads: options.Threads = None,
    replace: options.Replace = False,
    wants: FormatName = "table",
) -> None:
    """Regenerate images from their feature maps and from reconstructions, and report the pixel errors.

    The grid shows support images on the left and queries of one class on the right. Each query appears as the original,
    decoded from its own map, from the reconstruction by its class, and from those by other classes.
    """
    from PIL import Image

    from frn.data.folders import scan, split_folder
    from frn.data.pixel_cache import load_images
    from frn.episodes import EpisodeShape
    from frn.errors import FrnError
    from frn.inference.explanation import marked
    from frn.models.model import load_model
    from frn.system.files import write_atomically
    from frn.system.precision import choose_device, set_threads
    from frn.training.decoder.fit_decoder import load_decoder
    from frn.training.decoder.regeneration import Regenerator

    if out.suffix.lower() != ".png":
        raise FrnError(f"{out}: the grid must end in .png")
    require_writable(out, replace=replace)
    folders = scan(split_folder(data, split))
    set_threads(threads)
    loaded = load_model(model).to(choose_device(device))
    opened = load_decoder(decoder, loaded)
    with progress_bar(f"decoding {split}") as decoding:
        images = load_images(folders, loaded.config.transform, progress=decoding)
    report_skipped(images.broken)
    with progress_bar("features") as extracting:
        regenerator = Regenerator(loaded, opened, images, progress=extracting)
    where = str(folders.root)
    grid = regenerator.picture(EpisodeShape(way=min(way, 3), shot=shot, queries=columns), seed=seed, where=where)
    png = io.BytesIO()
    Image.fromarray(grid).save(png, format="PNG", **marked("PNG"))
    write_atomically(out, png.getvalue())
    with progress_bar("trials") as measuring:
        shape = EpisodeShape(way=way, shot=shot, queries=1)
        errors = regenerator.measure(shape, trials=trials, seed=seed, where=where, progress=measuring)
    l2 = {name: asdict(error) for name, error in errors.items()}
    shown = {"model": model, "decoder": str(decoder), "data": str(data), "split": split, "seed": seed}
    if printed(wants, {**shown, "way": way, "shot": shot, "trials": trials, "l2": l2, "picture": str(out)}):
        return
    names = ("ground-truth feature map", "same-class reconstruction", "other-class reconstruction")
    found = (f"{error.mean:.4f} ± {error.ci95:.4f}" for error in errors.values())
    print_table(("regenerated from", "L2 pixel error"), zip(names, found, strict=True))
    stdout().print(f"{trials} trials, {shape}; pixels in [-1, 1]. Grid: {strong(out)}", markup=True)
