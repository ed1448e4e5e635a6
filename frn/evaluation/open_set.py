"""How well photos of unknown classes are told from those of known ones (`inference.unknown`), over random episodes.

Each episode has twice `way` classes: the first half is enrolled, queries come from both. The area under the ROC curve
is the chance that a known query looks more known than an unknown one: by the share of it that the best class explains,
and, for comparison, by the largest probability.

Shape letters: way enrolled classes, r locations, d channels, q = way * queries known or unknown queries.
"""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from frn.data.pixel_cache import Progress
from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.accuracy import summarise
from frn.inference.unknown import calibrate, explained, left_out_explained
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters, probabilities

Scores = NDArray[np.floating]


class Unknown(TypedDict):
    """In percent; `missed` known and `caught` unknown queries are below the calibrated threshold."""

    auroc: float
    auroc_ci95: float
    auroc_softmax: float
    auroc_softmax_ci95: float
    missed: float
    caught: float


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
) -> Unknown:
    """Measure over random episodes; `shape` is that of the enrolled half, and there must be twice as many classes."""
    outcomes = np.empty((episodes, 4))
    for index in range(episodes):
        found = judge_episode(head, feature_maps, sizes, shape, seed=seed, index=index)
        below = [float((half < found.threshold).mean()) for half in found.explained]
        outcomes[index] = (auroc(*found.explained), auroc(*found.likeliest), *below)
        if progress:
            progress(index + 1, episodes)
    by_share, softmax, missed, caught = (summarise(column) for column in outcomes.T)
    return {
        "auroc": by_share.mean,
        "auroc_ci95": by_share.ci95,
        "auroc_softmax": softmax.mean,
        "auroc_softmax_ci95": softmax.ci95,
        "missed": missed.mean,
        "caught": caught.mean,
    }


@dataclass(frozen=True, slots=True)
class Judged:
    """One episode's queries: first those of enrolled classes, then those of others."""

    explained: tuple[Scores, Scores]
    """Share of each query that the best class explains."""
    likeliest: tuple[Scores, Scores]
    """Largest probability of each query."""
    threshold: float
    """Calibrated from the supports."""


def judge_episode(
    head: HeadParameters,
    feature_maps: NDArray[np.float32],
    sizes: tuple[int, ...],
    shape: EpisodeShape,
    *,
    seed: int,
    index: int,
) -> Judged:
    """Enroll the first half of the classes of episode number `index`, and score queries of both halves."""
    drawn = evaluation_episode(sizes, doubled(shape), seed=seed, index=index)
    supports = feature_maps[drawn[: shape.way, : shape.shot]]  # way, shot, r, d
    bank = ClassScorer([enroll(pool, head) for pool in supports])
    left_out = [left_out_explained(pool, head) for pool in supports] if shape.shot > 1 else []
    best, likeliest = [], []
    for half in (drawn[: shape.way], drawn[shape.way :]):
        queries = feature_maps[half[:, shape.shot :].flatten()]
        errors = bank.class_error(queries)
        best.append(explained(errors, queries).max(1))
        likeliest.append(probabilities(errors, head.gamma).max(1))
    return Judged((best[0], best[1]), (likeliest[0], likeliest[1]), calibrate(left_out))


def auroc(known: Scores, unknown: Scores) -> float:
    """Share of pairs of a known and an unknown query in which the known one scores higher; ties count half."""
    order = np.sort(unknown)
    below = np.searchsorted(order, known, side="left") + np.searchsorted(order, known, side="right")
    return float(below.mean() / 2 / len(unknown))
