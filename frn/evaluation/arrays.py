"""Few-shot accuracy of any features, with results as in `frn eval`."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from frn.episodes import EpisodeShape, check_classes, group_by_class
from frn.errors import FrnError
from frn.evaluation.accuracy import Result, as_result, summarise
from frn.evaluation.episodes import episode_accuracies
from frn.heads import build_untrained_head
from frn.heads.frn import FRNHead
from frn.heads.vectors.prototypes import SimpleShotHead
from frn.ridge.tuning import tune_on_episodes

Table = NDArray[Any] | Sequence[Any]


def evaluate(
    features: Table,
    labels: Table,
    *,
    way: int = 5,
    shot: int | Iterable[int] = (1, 5),
    queries: int = 16,
    episodes: int = 10_000,
    seed: int = 0,
    method: str = "frn",
    validation: tuple[Table, Table] | None = None,
) -> list[Result]:
    """Measure a head's accuracy over random episodes of features; return one result for each shot.

    Args:
        features: vectors (n, d), maps (n, r, d) or maps (n, d, h, w).
        labels: class of each image, (n,), names or numbers; episodes depend only on which images are alike.
        way: classes per episode.
        shot: supports per class.
        queries: queries per class.
        episodes: number of episodes.
        seed: seed of the random episodes.
        method: a head without trainable layers: frn, proto, simpleshot, cosine, logreg, knn, ...
        validation: features and labels of other classes, on which FRN's lambda and gamma are chosen for
            each shot; without them lambda = p / d and rho = 1, for features of mean energy 1. SimpleShot needs
            them, because it subtracts their mean.

    Raises FrnError if the shapes do not match, the head needs training, or a class is too small.
    """
    if episodes < 1:
        raise FrnError(f"accuracy needs episodes >= 1, not {episodes}")
    maps, sizes, names = _by_class(features, labels)
    head = build_untrained_head(method, maps.shape[-1]).eval()
    if isinstance(head, SimpleShotHead) and validation is None:
        raise FrnError("method 'simpleshot' subtracts the mean of other images: give their features as validation")
    unit = float(np.sqrt(np.square(maps, dtype=np.float64).sum(-1).mean())) or 1.0
    tensor = torch.from_numpy(maps / np.float32(unit))
    others = None if validation is None else _by_class(*validation)
    if others is not None and others[0].shape[-1] != maps.shape[-1]:
        raise FrnError(f"the validation features have {others[0].shape[-1]} channels, the features {maps.shape[-1]}")
    if others is not None and isinstance(head, SimpleShotHead):
        head.centre.copy_(torch.from_numpy(others[0].mean((0, 1)) / np.float32(unit)))
    results = []
    for k in map(int, shot if isinstance(shot, Iterable) else [shot]):  # JSON needs a float
        shape = EpisodeShape(way=way, shot=k, queries=queries)
        check_classes(names, sizes, shape, where="the features", every_class=True)
        chosen = None
        if others is not None and isinstance(head, FRNHead):
            check_classes(others[2], others[1], shape, where="the validation features", every_class=True)
            chosen = tune_on_episodes(others[0] / np.float32(unit), others[1], shape, seed=seed)
            head.set_parameters(chosen)
        began = time.perf_counter()
        accuracy = summarise(episode_accuracies(head, tensor, sizes, shape, episodes=range(episodes), seed=seed))
        result = as_result(accuracy, shape, time.perf_counter() - began)
        if chosen:
            result["head"] = asdict(chosen)
        results.append(result)
    return results


def _by_class(features: Table, labels: Table) -> tuple[NDArray[np.float32], tuple[int, ...], list[str]]:
    """Return maps (n, r, d) sorted by class, the number of images of each class, and the class names."""
    try:
        values, known = np.asarray(features), np.asarray(labels)
    except ValueError as error:
        raise FrnError(f"the features or labels are not an array ({error})") from error
    if values.dtype.kind not in "biuf":
        raise FrnError(f"the features are {values.dtype}, not numbers")
    maps = values.astype(np.float32)
    if known.dtype.kind not in "biufUSO":
        raise FrnError(f"the labels are {known.dtype}, not numbers or names")
    if maps.ndim == 4:
        maps = maps.reshape(*maps.shape[:2], -1).swapaxes(1, 2)
    elif maps.ndim == 2:
        maps = maps[:, None]
    if maps.ndim != 3 or not maps.size or known.shape != maps.shape[:1]:
        raise FrnError(
            f"features must be (n, d), (n, r, d) or (n, d, h, w) with n labels, not {maps.shape} "
            f"with labels {known.shape}"
        )
    if not np.isfinite(maps).all():
        raise FrnError("the features are not all finite numbers")
    names, of_each = group_by_class(known.astype(str) if known.dtype.kind == "O" else known)
    order = np.argsort(of_each, kind="stable")
    sizes = tuple(np.bincount(of_each).tolist())
    return np.ascontiguousarray(maps[order]), sizes, names
