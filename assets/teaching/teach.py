"""Distil stronger networks into the default model's backbone, mostly on unlabelled photos, as for `frn-photo`.

    python assets/teaching/teach.py --data data/cub --data ... --photos data/scenes --photos ... --out runs/taught
    python assets/teaching/teach.py recipe.toml --data data/cub --photos data/scenes

The teachers' outputs are computed once per photo and stored (about 19 KB per photo). The student learns from these
outputs and from FRN episodes. The final model is the running mean of the student's weights, mixed with its initial
weights. `recipe.toml` may change any setting of `lessons/teaching_recipe.py`. The `--data` options have the same order
as their shares in the recipe, and `--photos` need no labels.
"""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from lessons import lesson
from lessons.teacher_answers import Classifier
from lessons.teaching_recipe import TeachingRecipe, read_recipe

from frn.backbones.pretrained import find_weights, packaged_weights
from frn.cli.shell import options
from frn.cli.shell.console import INTERRUPTED, note, progress_bar, user_errors
from frn.cli.train.training_display import interruptible
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import ConcatImages, load_images
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.model import load_model
from frn.models.zoo import catalogue
from frn.system.precision import choose_precision
from frn.training.runs.run import RunFolder, RunSettings

EVERY = 100
"""Steps between two progress lines."""


def main(
    recipe: Annotated[Path | None, typer.Argument(help="TOML file of settings.")] = None,
    data: Annotated[list[Path] | None, typer.Option(help="Data set with train/. Repeatable.")] = None,
    photos: Annotated[list[Path] | None, typer.Option(help="Folder of folders of photos. Repeatable.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights of the teacher; by default its package's.")] = None,
    init: Annotated[str, typer.Option(metavar="MODEL", help="Start from the weights of this model.")] = "resnet9-photo",
    out: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics.")] = Path("runs/teach"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    compiled: options.Compile = False,
    resume: options.Resume = False,
) -> None:
    """Distil stronger networks into the default model's backbone."""
    with user_errors():
        wanted, data, photos = read_recipe(recipe) if recipe else TeachingRecipe(), data or [], photos or []
        if not photos or len(data) != len(wanted.episode_shares):
            raise FrnError(f"teaching takes --photos, and --data {len(wanted.episode_shares)} times: see the recipe")
        if not resume:
            RunFolder(out).require_free()
        package = next((n.package for n in catalogue().values() if n.backbone == wanted.teacher and n.package), None)
        file = find_weights(wanted.teacher, weights or (packaged_weights(package) if package else None))
        teacher = Classifier(wanted.teacher, file, wanted.teacher_size)
        own, student = load_model(wanted.own), load_model(init)
        lesson.start(wanted, student)  # refuse unsuitable settings before any photo is decoded
        kept = EvaluationTransform(size=wanted.teacher_size, resize=wanted.teacher_size)
        parts = []
        for folder in [*(split_folder(path, "train") for path in data), *photos]:
            with progress_bar(f"decoding {folder}") as progress:
                parts.append(load_images(scan(folder), kept, progress=progress))
        settings = RunSettings(
            seed=seed,
            precision=choose_precision(precision, torch.device("cpu")),
            compiled=compiled,
            resume=resume,
            command=shlex.join(["python", *sys.argv]),
            facts={"data": " and ".join(path.resolve().name for path in [*data, *photos]), "teacher": wanted.teacher},
        )

        def report(step: int, losses: dict[str, float]) -> None:
            if step % EVERY == 0:
                note(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in losses.items()))

        images = ConcatImages(tuple(parts))
        with interruptible() as stopped, progress_bar("asking the teachers") as progress:
            ended = lesson.teach(
                *(wanted, images, len(data), teacher, own, student, out, settings),
                report=report,
                progress=progress,
                stop=stopped,
            )
        if not ended.finished:
            note(f"saved after {ended.position.total_steps} steps. Call it again with --resume to continue.")
            raise typer.Exit(INTERRUPTED)
        print(f"taught in {ended.position.seconds / 60:.1f} minutes: {out / 'best.safetensors'}")


if __name__ == "__main__":
    typer.run(main)
