"""A model measured on a split: several episode shapes from features that are computed once."""

import time
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from frn.data.cache import Progress, StoredImages
from frn.episodes import EpisodeShape, check_classes
from frn.errors import FrnError
from frn.evaluation.episodes import evaluate_episodes
from frn.evaluation.features import exported_head, extract_features, extract_in_onnxruntime
from frn.evaluation.open_set import doubled, measure_open_set
from frn.heads.base import Head
from frn.inference.extractor import Extractor
from frn.model import Model
from frn.numerics import Precision, keep_freed_memory
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import tune_on_episodes


class Unknown(TypedDict):
    """Telling strangers from known classes, in percent; `missed` and `caught` at the calibrated threshold."""

    auroc: float
    auroc_ci95: float
    auroc_softmax: float
    auroc_softmax_ci95: float
    missed: float
    caught: float


class Result(TypedDict):
    """One shape's accuracy; `accuracy` and `ci95` in percent."""

    way: int
    shot: int
    queries: int
    episodes: int
    accuracy: float
    ci95: float
    seconds: float
    unknown: NotRequired[Unknown]
    head: NotRequired[dict[str, float]]
    """What was chosen from the validation split, for a head that nobody trained."""


def evaluate_images(
    model: Model | Extractor,
    images: StoredImages,
    shapes: Sequence[EpisodeShape],
    *,
    episodes: int,
    seed: int,
    precision: Precision = "fp32",
    device: torch.device | str = "cpu",
    where: str = "the split",
    extracting: Progress | None = None,
    scoring: Progress | None = None,
    unknown: bool = False,
    validation: StoredImages | None = None,
) -> list[Result]:
    """Evaluate a model on images prepared by its own transform.

    Args:
        model: a torch model in evaluation mode, on `device`; or an exported extractor, run by onnxruntime.
        images: uniform images of the model's size.
        shapes: one result each.
        episodes: per shape.
        seed: the same seed draws the same episodes.
        precision: of the backbone.
        device: where the model is.
        where: what to call the images in an error.
        extracting: progress over images.
        scoring: progress over the episodes of one shape.
        validation: images of the validation split, where an untrained FRN head is to be tuned; of other classes.
        unknown: also measure how well strangers are told from known classes; needs twice as many classes.

    Raises:
        FrnError: if a class is too small for one of the shapes.
    """
    keep_freed_memory()
    for shape in shapes:
        if validation is not None:
            check_classes(validation.names, validation.sizes, shape, where="the validation split", every_class=True)
        needed = doubled(shape) if unknown else shape
        check_classes(images.names, images.sizes, needed, where=where, every_class=True)
    if isinstance(model, Extractor):
        maps, head = extract_in_onnxruntime(model, images, progress=extracting), exported_head(model)
    else:
        maps = extract_features(model, images, precision=precision, device=device, progress=extracting)
        head = model.head
    tuning = None
    if validation is not None and isinstance(model, Extractor):
        tuning = extract_in_onnxruntime(model, validation, progress=extracting)
    elif validation is not None and isinstance(model, Model):
        tuning = extract_features(model, validation, precision=precision, device=device, progress=extracting)
    results: list[Result] = []
    for shape in shapes:
        chosen = None
        if validation is not None and tuning is not None:
            chosen = tune_on_episodes(tuning.cpu().numpy(), validation.sizes, shape, seed=seed)
            assert head.ridge is not None
            head.ridge.set_parameters(chosen)
        began = time.perf_counter()
        accuracy = evaluate_episodes(head, maps, images.sizes, shape, episodes=episodes, seed=seed, progress=scoring)
        result: Result = {
            "way": shape.way,
            "shot": shape.shot,
            "queries": shape.queries,
            "episodes": episodes,
            "accuracy": accuracy.mean,
            "ci95": accuracy.ci95,
            "seconds": round(time.perf_counter() - began, 3),
        }
        if chosen:
            result["head"] = {"alpha": chosen.alpha, "beta": chosen.beta, "gamma": chosen.gamma}
        if unknown:
            result["unknown"] = _unknown(head, maps, images.sizes, shape, episodes, seed, scoring)
        results.append(result)
    return results


def _unknown(
    head: Head,
    maps: Tensor,
    sizes: tuple[int, ...],
    shape: EpisodeShape,
    episodes: int,
    seed: int,
    progress: Progress | None,
) -> Unknown:
    if head.ridge is None:
        raise FrnError("--unknown asks how much of a query is rebuilt: it needs a model trained with --method frn")
    parameters = HeadParameters.of(head.ridge)
    found = measure_open_set(
        parameters, maps.cpu().numpy(), sizes, shape, episodes=episodes, seed=seed, progress=progress
    )
    return {
        "auroc": found.auroc.mean,
        "auroc_ci95": found.auroc.ci95,
        "auroc_softmax": found.auroc_softmax.mean,
        "auroc_softmax_ci95": found.auroc_softmax.ci95,
        "missed": found.missed.mean,
        "caught": found.caught.mean,
    }
