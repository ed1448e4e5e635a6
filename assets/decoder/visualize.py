"""Turn feature maps and reconstructions back into images with the paper's decoder (Sec. 4.5, Table 10).

python assets/decoder/visualize.py train runs/frn --data data/cifar-fs --out runs/decoder
python assets/decoder/visualize.py render runs/frn --decoder runs/decoder --data data/cifar-fs --out grid.png
"""

import io
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from decoding.fitting import DecoderSchedule, load_decoder, train_decoder
from decoding.regeneration import Regenerator
from PIL import Image

from frn.cli.shell import options
from frn.cli.shell.console import INTERRUPTED, note, print_table, progress_bar, report_skipped, user_errors
from frn.cli.train.training_display import interruptible
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import load_images
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.models.model import load_model
from frn.report.heat_maps import mark
from frn.system.files import require_writable, write_atomically
from frn.system.precision import choose_device, choose_precision, set_threads
from frn.training.runs.run import RunFolder, RunSettings

app = typer.Typer(no_args_is_help=True, help="Turn feature maps and reconstructions back into images.")

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Model name, model file or run folder.")]


@app.command()
def train(
    model: ModelName,
    data: options.SplitData,
    out: Annotated[Path, typer.Option(help="Folder for the decoder and its metrics.")],
    split: options.Split = "train",
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 200,
    batch: Annotated[int, typer.Option(min=2, help="Images per step.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    resume: options.Resume = False,
) -> None:
    """Train a decoder that turns a frozen model's feature maps back into images."""
    with user_errors():
        if not resume:
            RunFolder(out).require_free()
        folders = scan(split_folder(data, split))
        set_threads(threads)
        where = choose_device(device)
        loaded = load_model(model)
        with progress_bar(f"decoding {split}") as decoding:
            images = load_images(folders, loaded.config.transform, progress=decoding)
        report_skipped(images.broken)
        settings = RunSettings(
            seed=seed,
            precision=choose_precision(precision, where),
            device=where,
            resume=resume,
            command=shlex.join(["python", *sys.argv]),
        )
        note(f"decoder of {model}: {len(images)} images, {settings.precision} on {where.type}")
        schedule = DecoderSchedule(epochs=epochs, batch=batch)
        with progress_bar("training") as progress, interruptible() as stopped:
            trained = train_decoder(loaded, images, out, schedule, settings, progress=progress, stop=stopped)
        steps = trained.position.total_steps
        if not trained.finished:
            note(f"saved after {steps} steps. Call it again with --resume to continue.")
            raise typer.Exit(INTERRUPTED)
        print(f"trained {steps} steps in {trained.position.seconds / 60:.1f} minutes: {out}")


@app.command()
def render(
    model: ModelName,
    decoder: Annotated[Path, typer.Option(help="Decoder that `train` made for this model.")],
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
) -> None:
    """Regenerate images from their feature maps and from reconstructions, and report the pixel errors.

    The grid shows support images on the left and queries of one class on the right. Each query is shown as the
    original, then decoded from its own map, from the reconstruction by its class, and from the reconstructions by other
    classes.
    """
    with user_errors():
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
        Image.fromarray(grid).save(png, format="PNG", pnginfo=mark())
        write_atomically(out, png.getvalue())
        shape = EpisodeShape(way=way, shot=shot, queries=1)
        with progress_bar("trials") as measuring:
            errors = regenerator.measure(shape, trials=trials, seed=seed, where=where, progress=measuring)
        names = ("ground-truth feature map", "same-class reconstruction", "other-class reconstruction")
        cells = (f"{error.mean:.4f} ± {error.ci95:.4f}" for error in errors.values())
        print_table(("regenerated from", "L2 pixel error"), zip(names, cells, strict=True))
        print(f"{trials} trials, {shape}; pixels in [-1, 1]. Grid: {out}")


if __name__ == "__main__":
    app()
