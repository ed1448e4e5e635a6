"""Turn feature maps and reconstructions back into images with the paper's decoder (Sec. 4.5, Table 10).

python assets/decoder/visualize.py train runs/frn --data data/cifar-fs --out runs/decoder
python assets/decoder/visualize.py render runs/frn --decoder runs/decoder --data data/cifar-fs --out grid.png
"""

import io
import math
import shlex
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from decoding import Decoder, decoder_input, load_decoder, targets, train_decoder
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from frn.cli.shell import options
from frn.cli.shell.console import INTERRUPTED, note, print_table, progress_bar, report_skipped, user_errors
from frn.cli.train.training_display import interruptible
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import Progress, StoredImages, load_images
from frn.episodes import EpisodeShape, check_classes, evaluation_episode
from frn.errors import FrnError
from frn.evaluation.features import TorchExtractor
from frn.heads.frn import FRNHead
from frn.images.transforms import Pixels
from frn.models.model import Model, load_model
from frn.report.heat_maps import mark
from frn.ridge.reconstruction import reconstruct
from frn.system.files import require_writable, write_atomically
from frn.system.precision import choose_device, choose_precision, set_threads
from frn.training.runs.run import RunFolder, RunSettings

app = typer.Typer(no_args_is_help=True, help="Turn feature maps and reconstructions back into images.")

GAP = 2  # white pixels between the images of a grid

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
        with progress_bar("training") as progress, interruptible() as stop:
            trained = train_decoder(
                loaded, images, out, settings, epochs=epochs, batch=batch, progress=progress, stop=stop
            )
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
        shape = EpisodeShape(way=way, shot=shot, queries=columns)
        check_classes(images.names, images.sizes, shape, where=str(folders.root), every_class=True)
        grid = regenerator.picture(EpisodeShape(way=min(way, 3), shot=shot, queries=columns), seed=seed)
        png = io.BytesIO()
        Image.fromarray(grid).save(png, format="PNG", pnginfo=mark())
        write_atomically(out, png.getvalue())
        errors, shape = np.empty((trials, 3)), EpisodeShape(way=way, shot=shot, queries=1)
        with progress_bar("trials") as progress:
            for index in range(trials):
                errors[index] = regenerator.trial(shape, seed=seed, index=index)
                progress(index + 1, trials)
        names = ("ground-truth feature map", "same-class reconstruction", "other-class reconstruction")
        halves = 1.96 * errors.std(axis=0) / math.sqrt(trials)
        cells = (f"{mean:.4f} ± {half:.4f}" for mean, half in zip(errors.mean(axis=0), halves, strict=True))
        print_table(("regenerated from", "L2 pixel error"), zip(names, cells, strict=True))
        print(f"{trials} trials, {shape}; pixels in [-1, 1]. Grid: {out}")


class Regenerator:
    """A model, its decoder, and the feature maps of a split."""

    def __init__(
        self, model: Model, decoder: Decoder, images: StoredImages, *, progress: Progress | None = None
    ) -> None:
        """Compute the feature maps. Raises FrnError if the model has no FRN head, which could not reconstruct them."""
        head = model.head
        if not isinstance(head, FRNHead):
            raise FrnError(f"a {model.config.method} model does not reconstruct; use a model trained with --method frn")
        self.model, self.decoder, self.images, self.head = model, decoder, images, head
        extractor = TorchExtractor(model, device=model.mean.device)
        self.maps = decoder_input(extractor.extract(images, progress))

    @torch.inference_mode()
    def decoded(self, sampled: NDArray[np.int64], shot: int) -> Tensor:
        """Return images (1 + way, queries, 3, S, S) of an episode's queries.

        They are decoded from the queries' own maps, and from their reconstructions by each class.
        """
        query, pool = self.maps[sampled[:, shot:].flatten()], self.maps[sampled[:, :shot]].flatten(1, 2)
        rebuilt = reconstruct(query.flatten(0, 1), pool, self.head.lam(*pool.shape[1:]), self.head.rho())
        maps = torch.cat([query[None], rebuilt.unflatten(1, query.shape[:2])])
        return self.decoder(maps.flatten(0, 1)).unflatten(0, maps.shape[:2])

    def trial(self, shape: EpisodeShape, *, seed: int, index: int) -> tuple[float, float, float]:
        """Return the mean L2 pixel errors of queries, decoded from their own maps, their class and other classes.

        For one image, it is the root mean squared difference of pixels in [-1, 1]; the paper does not give the unit.
        """
        sampled = evaluation_episode(self.images.sizes, shape, seed=seed, index=index)
        original = targets(self.model, self.images.images()[sampled[:, shape.shot :].flatten()])
        error = (self.decoded(sampled, shape.shot) - original).square().mean((-3, -2, -1)).sqrt()  # 1 + way, queries
        labels = torch.arange(shape.way, device=error.device).repeat_interleave(shape.queries)
        same = error[1:].gather(0, labels[None]).mean()
        other = (error[1:].sum() - same * len(labels)) / (error[1:].numel() - len(labels))
        return error[0].mean().item(), same.item(), other.item()

    def picture(self, shape: EpisodeShape, *, seed: int) -> Pixels:
        """Return a grid as in the paper's figures: supports on the left, queries of the first class on the right.

        The first row shows the queries. The next rows show images decoded from the queries' own maps, from the
        reconstruction by their own class, and from the reconstruction by each other class.
        """
        sampled, pixels = evaluation_episode(self.images.sizes, shape, seed=seed, index=0), self.images.images()
        pictures = self.decoded(sampled, shape.shot)[:, : shape.queries]
        shown = ((pictures.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 1, 3, 4, 2).cpu().numpy()
        right = np.concatenate([pixels[sampled[0, shape.shot :]][None], shown])
        support_tiles = np.full((2 + shape.way, shape.shot, *shown.shape[2:]), 255, dtype=np.uint8)
        support_tiles[2:] = pixels[sampled[:, : shape.shot]]
        tiles = np.concatenate([support_tiles, right], axis=1)  # rows, columns, S, S, 3
        framed = np.pad(tiles, ((0, 0), (0, 0), (GAP, 0), (GAP, 0), (0, 0)), constant_values=255)
        rows, columns, height, width, _ = framed.shape
        return framed.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, 3)


if __name__ == "__main__":
    app()
