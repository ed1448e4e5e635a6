"""Measure over random episodes how well photos of unknown classes are detected (`frn.inference.unknown`).

Each episode has twice `way` classes: the first half is enrolled, and queries come from both halves. The area under the
ROC curve is the probability that a known query scores higher than an unknown one. The two scores are the familiarity
and, for comparison, the largest probability.

Shape letters: way enrolled classes, r locations, d channels, q = way * queries known or unknown queries.
"""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from frn.data.pixel_cache import Progress
from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.accuracy import summarise
from frn.inference.unknown import auroc, calibrate, explained, familiarity, without_itself
from frn.ridge.enrolment import ClassScorer, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters, probabilities

Scores = NDArray[np.floating]


class Unknown(TypedDict):
    """How well unknown queries are detected, in percent.

    The two rates are the fractions of known and of unknown queries that fall below the calibrated threshold.
    """

    auroc: float
    auroc_ci95: float
    auroc_softmax: float
    auroc_softmax_ci95: float
    false_rejections: float
    true_positive_rate: float


def doubled(shape: EpisodeShape) -> EpisodeShape:
    """Return the shape with as many unknown classes added as there are known ones."""
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
    """Measure detection over random episodes, each with twice as many classes as `shape`; half of them are enrolled."""
    outcomes = np.empty((episodes, 4))
    for index in range(episodes):
        found = judge_episode(head, feature_maps, sizes, shape, seed=seed, index=index)
        below = [float((half < found.least).mean()) for half in found.familiarity]
        outcomes[index] = (auroc(*found.familiarity), auroc(*found.likeliest), *below)
        if progress:
            progress(index + 1, episodes)
    by_share, softmax, false_rejections, true_positive_rate = (summarise(column) for column in outcomes.T)
    return {
        "auroc": by_share.mean,
        "auroc_ci95": by_share.ci95,
        "auroc_softmax": softmax.mean,
        "auroc_softmax_ci95": softmax.ci95,
        "false_rejections": false_rejections.mean,
        "true_positive_rate": true_positive_rate.mean,
    }


@dataclass(frozen=True, slots=True)
class Judged:
    """The scores of one episode's queries: first those from enrolled classes, then those from unknown classes."""

    explained: tuple[Scores, Scores]
    """Share of each query that the best class reconstructs."""
    likeliest: tuple[Scores, Scores]
    """Largest probability of each query."""
    familiarity: tuple[Scores, Scores]
    """Familiarity of each query, which separates known from unknown queries."""
    least: float
    """Smallest familiarity of a known query, as calibrated on the supports."""


def judge_episode(
    head: HeadParameters,
    feature_maps: NDArray[np.float32],
    sizes: tuple[int, ...],
    shape: EpisodeShape,
    *,
    seed: int,
    index: int,
) -> Judged:
    """Enroll half of the classes in episode number `index`, and score queries from both halves."""
    sampled = evaluation_episode(sizes, doubled(shape), seed=seed, index=index)
    supports = feature_maps[sampled[: shape.way, : shape.shot]]  # way, shot, r, d
    bank = ClassScorer([enroll(pool, head) for pool in supports])
    least = -np.inf
    if shape.shot > 1:
        labels = np.repeat(np.arange(shape.way), shape.shot)
        examples = supports.reshape(-1, *supports.shape[2:])
        errors = bank.class_error(examples).astype(np.float64)
        errors[np.arange(len(labels)), labels] = np.concatenate([leave_one_out(pool, head) for pool in supports])
        away = bank.centres.distance(examples)
        away = without_itself(away, labels, np.full(shape.way, shape.shot))
        least = calibrate(errors, labels, energy(examples), away).rule.least
    best, likeliest, familiar = [], [], []
    for half in (sampled[: shape.way], sampled[shape.way :]):
        queries = feature_maps[half[:, shape.shot :].flatten()]
        errors = bank.class_error(queries).astype(np.float64)
        best.append(explained(errors, energy(queries)).max(1))
        familiar.append(familiarity(errors, energy(queries), bank.centres.distance(queries)))
        likeliest.append(probabilities(errors, head.gamma).max(1))
    return Judged((best[0], best[1]), (likeliest[0], likeliest[1]), (familiar[0], familiar[1]), least)


def describe_unknown(found: Unknown) -> str:
    """Describe how well unknown classes are detected, in one line."""
    return (
        f"known from unknown: AUROC {found['auroc']:.2f} ± {found['auroc_ci95']:.2f}% by familiarity, "
        f"{found['auroc_softmax']:.2f} ± {found['auroc_softmax_ci95']:.2f}% by the probability; the calibrated "
        f"threshold calls {found['false_rejections']:.1f}% of known and "
        f"{found['true_positive_rate']:.1f}% of unknown queries unknown"
    )
