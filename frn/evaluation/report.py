"""A model measured on a split: several episode shapes from features that are computed once."""

import time
from collections.abc import Sequence
from typing import TypedDict

import torch

from frn.data.cache import Progress, StoredImages
from frn.episodes import EpisodeShape, check_classes
from frn.evaluation.episodes import evaluate_episodes
from frn.evaluation.features import extract_features
from frn.model import Model
from frn.precision import Precision, keep_freed_memory


class Result(TypedDict):
    """One shape's accuracy; `accuracy` and `ci95` in percent."""

    way: int
    shot: int
    queries: int
    episodes: int
    accuracy: float
    ci95: float
    seconds: float


def evaluate_images(
    model: Model,
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
) -> list[Result]:
    """Evaluate a model on images prepared by its own transform.

    Args:
        model: in evaluation mode, on `device`.
        images: uniform images of the model's size.
        shapes: one result each.
        episodes: per shape.
        seed: the same seed draws the same episodes.
        precision: of the backbone.
        device: where the model is.
        where: what to call the images in an error.
        extracting: progress over images.
        scoring: progress over the episodes of one shape.

    Raises:
        FrnError: if a class is too small for one of the shapes.
    """
    keep_freed_memory()
    for shape in shapes:
        check_classes(images.names, images.sizes, shape, where=where, every_class=True)
    maps = extract_features(model, images, precision=precision, device=device, progress=extracting)
    results: list[Result] = []
    for shape in shapes:
        began = time.perf_counter()
        accuracy = evaluate_episodes(
            model.head, maps, images.sizes, shape, episodes=episodes, seed=seed, progress=scoring
        )
        results.append(
            {
                "way": shape.way,
                "shot": shape.shot,
                "queries": shape.queries,
                "episodes": episodes,
                "accuracy": accuracy.mean,
                "ci95": accuracy.ci95,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )
    return results
