"""How well photos of unknown classes are told from those of known ones (`inference.unknown`), over random episodes.

Each episode has twice `way` classes: the first half is enrolled, queries come from both. The area under the ROC curve
is the chance that a known query looks more known than an unknown one: by the share of it that the best class explains,
and, for comparison, by the largest probability.

Shape letters: way enrolled classes, r locations, d channels, q = way * queries known or unknown queries.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.data.cache import Progress
from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.accuracy import Accuracy, summarise
from frn.inference.unknown import calibrate, explained, left_out_explained
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters, probabilities

Scores = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class OpenSetResult:
    """Means over episodes, in percent."""

    auroc: Accuracy
    """By the explained share."""
    auroc_softmax: Accuracy
    """By the largest probability."""
    missed: Accuracy
    """Known queries below the calibrated threshold."""
    caught: Accuracy
    """Unknown queries below it."""


def doubled(shape: EpisodeShape) -> EpisodeShape:
    """The episode with as many unknown classes beside the known ones."""
    return EpisodeShape(way=2 * shape.way, shot=shape.shot, queries=shape.queries)


def measure_open_set(
    head: HeadParameters,
    feature_maps: NDArray[np.float32],
    sizes: tuple[int, ...],
    shape: EpisodeShape,
    *,
    episodes: int,
    seed: int,
    progress: Progress | None = None,
) -> OpenSetResult:
    """Measure over random episodes; `shape` is that of the enrolled half, and there must be twice as many classes."""
    outcomes = np.empty((episodes, 4))
    for index in range(episodes):
        drawn = evaluation_episode(sizes, doubled(shape), seed=seed, index=index)
        supports = feature_maps[drawn[: shape.way, : shape.shot]]  # way, shot, r, d
        bank = ClassScorer([enroll(pool, head) for pool in supports])
        left_out = [left_out_explained(pool, head) for pool in supports] if shape.shot > 1 else []
        threshold = calibrate(left_out)
        shares, likeliest = [], []
        for half in (drawn[: shape.way], drawn[shape.way :]):
            queries = feature_maps[half[:, shape.shot :].flatten()]
            errors = bank.class_error(queries)
            shares.append(explained(errors, queries).max(1))
            likeliest.append(probabilities(errors, head.gamma).max(1))
        outcomes[index] = auroc(*shares), auroc(*likeliest), *(np.mean(half < threshold) for half in shares)
        if progress:
            progress(index + 1, episodes)
    return OpenSetResult(*(summarise(column) for column in outcomes.T))


def auroc(known: Scores, unknown: Scores) -> float:
    """Share of pairs of a known and an unknown query in which the known one scores higher; ties count half."""
    order = np.sort(unknown)
    below = np.searchsorted(order, known, side="left") + np.searchsorted(order, known, side="right")
    return float(below.mean() / 2 / len(unknown))
