"""Mean accuracy and its 95% interval, as the paper reports them. Free of torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from frn.episodes import EpisodeShape


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Mean of the episodes' accuracies and the half-width of its 95% confidence interval, in percent."""

    mean: float
    ci95: float
    episodes: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.ci95:.2f} %"


def summarise(correct: Sequence[float] | np.typing.NDArray[np.float64]) -> Accuracy:
    """Summarise each episode's share of right answers, in [0, 1].

    The interval is 1.96 sqrt(variance / n) with the population's variance, as the authors' code has it.
    """
    percent = 100 * np.asarray(correct, dtype=np.float64)
    return Accuracy(float(percent.mean()), 1.96 * math.sqrt(float(percent.var()) / len(percent)), len(percent))


class Unknown(TypedDict):
    """In percent. Both rates are shares of queries below the calibrated threshold: of known and of unknown ones."""

    auroc: float
    auroc_ci95: float
    auroc_softmax: float
    auroc_softmax_ci95: float
    false_rejections: float
    true_positive_rate: float


class Result(TypedDict):
    """One shape's accuracy; `accuracy` and `ci95` in percent."""

    way: int
    shot: int
    queries: int
    episodes: int
    accuracy: float
    ci95: float
    seconds: float
    tuned: NotRequired[dict[str, float]]
    """Accuracy and ci95 of the same episodes, enrolled as `frn classify` does."""
    transductive: NotRequired[dict[str, dict[str, float]]]
    """Accuracy and ci95 if the queries refine these classes: of the same episodes, and with unequal classes."""
    unknown: NotRequired[Unknown]
    head: NotRequired[dict[str, float]]
    """What was chosen from the validation split, for a head that nobody trained."""


def as_result(accuracy: Accuracy, shape: EpisodeShape, seconds: float) -> Result:
    """Return a shape's accuracy as `frn eval --json` has it."""
    return {
        "way": shape.way,
        "shot": shape.shot,
        "queries": shape.queries,
        "episodes": accuracy.episodes,
        "accuracy": accuracy.mean,
        "ci95": accuracy.ci95,
        "seconds": round(seconds, 3),
    }
