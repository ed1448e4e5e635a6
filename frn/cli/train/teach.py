"""`frn teach`: a student distilled from stronger networks."""

from pathlib import Path
from typing import Annotated

import typer

from frn.cli.shell import options
from frn.cli.shell.console import command_line, end_stopped_run, note, progress_bar, stdout, strong
from frn.cli.shell.output import FormatName, printed, prints_result
from frn.models.zoo import DEFAULT_MODEL

EVERY = 100
"""Steps between two progress lines."""


@prints_result()
def teach(
    recipe: Annotated[
        Path | None, typer.Argument(help="TOML file of settings.", show_default="frn.training.teaching.teaching_recipe")
    ] = None,
    data: Annotated[
        list[Path] | None, typer.Option(help="Data set with train/, in the recipe's order. Repeatable.")
    ] = None,
    photos: Annotated[
        list[Path] | None, typer.Option(help="Folder of folders of unlabelled photos. Repeatable.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights of the teacher.", show_default="those of its package")
    ] = None,
    init: Annotated[str, typer.Option(metavar="MODEL", help="Start from the weights of this model.")] = DEFAULT_MODEL,
    out: Annotated[Path, typer.Option(help="Folder for checkpoints and metrics.")] = Path("runs/teach"),
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    precision: options.Precision = "auto",
    compiled: options.Compile = False,
    resume: options.Resume = False,
    wants: FormatName = "table",
) -> None:
    """Distil stronger networks into the default model's backbone, mostly on unlabelled photos.

    The teachers' outputs are computed once per photo and stored. The student learns from them and from episodes.
    """
    import torch

    from frn.backbones.pretrained import find_weights, packaged_weights
    from frn.cli.train.training_display import interruptible
    from frn.data.concat import ConcatImages
    from frn.data.folders import scan, split_folder
    from frn.data.pixel_cache import load_images
    from frn.errors import FrnError
    from frn.images.transforms import EvaluationTransform
    from frn.models.catalogue import CATALOGUE
    from frn.models.model import load_model
    from frn.system.precision import choose_precision
    from frn.training.runs.run import RunSettings
    from frn.training.runs.run_folder import RunFolder
    from frn.training.teaching import lesson
    from frn.training.teaching.teacher_answers import Classifier
    from frn.training.teaching.teaching_recipe import TeachingRecipe, read_recipe

    wanted, data, photos = read_recipe(recipe) if recipe else TeachingRecipe(), data or [], photos or []
    if not photos or len(data) != len(wanted.episode_shares):
        raise FrnError(f"teaching takes --photos, and --data {len(wanted.episode_shares)} times: see the recipe")
    if not resume:
        RunFolder(out).require_free()
    package = next((n.package for n in CATALOGUE.values() if n.backbone == wanted.teacher and n.package), None)
    file = find_weights(wanted.teacher, weights or (packaged_weights(package) if package else None))
    teacher = Classifier(wanted.teacher, file, wanted.teacher_size)
    own, student = load_model(wanted.own), load_model(init)
    lesson.start(wanted, student)  # report mismatches before photos are decoded
    kept = EvaluationTransform(size=wanted.teacher_size, resize=wanted.teacher_size)
    parts = []
    for folder in [*(split_folder(path, "train") for path in data), *photos]:
        with progress_bar(f"decoding {folder.parent.name if folder.name == 'train' else folder.name}") as progress:
            parts.append(load_images(scan(folder), kept, progress=progress))
    settings = RunSettings(
        seed=seed,
        precision=choose_precision(precision, torch.device("cpu")),
        compiled=compiled,
        resume=resume,
        command=command_line(),
        facts={"data": " and ".join(path.resolve().name for path in [*data, *photos]), "teacher": wanted.teacher},
    )
    networks, images = (teacher, own, student), ConcatImages(tuple(parts))

    def report(step: int, losses: dict[str, float]) -> None:
        if step % EVERY == 0:
            note(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in losses.items()))

    with interruptible() as stopped, progress_bar("asking the teachers") as progress:
        ended = lesson.teach(
            wanted, images, len(data), *networks, out, settings, report=report, progress=progress, stop=stopped
        )
    if not ended.finished:
        end_stopped_run(ended.position.total_steps)
    best = out / "best.safetensors"
    if not printed(wants, {"model": str(best), "seconds": round(ended.position.seconds, 1)}):
        stdout().print(f"taught in {ended.position.seconds / 60:.1f} minutes: {strong(best)}", markup=True)
