"""From options to a teaching: reads the photos and the networks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from frn.backbones.pretrained import find_weights, packaged_weights
from frn.data.concat import ConcatImages
from frn.data.folders import scan, split_folder
from frn.data.pixel_cache import load_images
from frn.errors import FrnError
from frn.evaluation.evaluate_model import ProgressBars
from frn.images.transforms import EvaluationTransform
from frn.models.catalogue import CATALOGUE
from frn.models.model import load_model
from frn.system.precision import choose_precision
from frn.training.runs.run import RunResult, RunSettings
from frn.training.runs.run_folder import RunFolder
from frn.training.teaching.answers import Classifier
from frn.training.teaching.lesson import Photos, start, teach
from frn.training.teaching.teaching_recipe import TeachingRecipe, read_recipe


def prepare_teaching(
    recipe: Path | None,
    data: list[Path],
    photos: list[Path],
    weights: Path | None,
    init: str,
    out: Path,
    *,
    seed: int,
    precision: str,
    compiled: bool,
    resume: bool,
    command: str,
    bars: ProgressBars,
) -> Callable[..., RunResult]:
    """Read everything; what is returned takes `report`, `progress` and `stop`, and teaches.

    FrnError if something is missing or does not fit.
    """
    settings = read_recipe(recipe) if recipe else TeachingRecipe()
    if not photos or len(data) != len(settings.episode_shares):
        raise FrnError(f"teaching takes --photos, and --data {len(settings.episode_shares)} times: see the recipe")
    if not resume:
        RunFolder(out).require_free()
    package = next((n.package for n in CATALOGUE.values() if n.backbone == settings.teacher and n.package), None)
    file = find_weights(settings.teacher, weights or (packaged_weights(package) if package else None))
    teacher = Classifier(settings.teacher, file, settings.teacher_size)
    own, student = load_model(settings.own), load_model(init)
    start(settings, student)  # refuses what does not fit, before photos are decoded
    kept = EvaluationTransform(size=settings.teacher_size, resize=settings.teacher_size)
    parts = []
    for folder in [*(split_folder(path, "train") for path in data), *photos]:
        with bars(f"decoding {folder.parent.name if folder.name == 'train' else folder.name}") as progress:
            parts.append(load_images(scan(folder), kept, progress=progress))
    facts = {"data": " and ".join(path.resolve().name for path in [*data, *photos]), "teacher": settings.teacher}
    run = RunSettings(
        seed=seed,
        precision=choose_precision(precision, torch.device("cpu")),
        compiled=compiled,
        resume=resume,
        command=command,
        facts=facts,
    )
    return partial(teach, settings, Photos(ConcatImages(tuple(parts)), len(data)), teacher, own, student, out, run)
