"""Mean accuracy and its 95% interval, as in the paper. This module does not need torch."""

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
        return f"{self.mean:.2f} ± {self.ci95:.2f}%"


def summarise(correct: Sequence[float] | np.typing.NDArray[np.float64]) -> Accuracy:
    """Summarise each episode's fraction of correct answers, in [0, 1].

    The interval is 1.96 sqrt(variance / n) with the population variance, as in the authors' code.
    """
    percent = 100 * np.asarray(correct, dtype=np.float64)
    return Accuracy(float(percent.mean()), 1.96 * math.sqrt(float(percent.var()) / len(percent)), len(percent))


class Result(TypedDict):
    """Accuracy of one episode shape; `accuracy` and `ci95` are in percent."""

    way: int
    shot: int
    queries: int
    episodes: int
    accuracy: float
    ci95: float
    seconds: float
    tuned: NotRequired[dict[str, float]]  # accuracy and ci95 for the same episodes, enrolled as in `frn classify`
    correct: NotRequired[list[int]]  # number of correct answers in each episode (`--per-episode`)
    difference: NotRequired[dict[str, float]]
    """Accuracy minus that of the first model in the same episodes, with its paired ci95."""
    transductive: NotRequired[dict[str, dict[str, float]]]
    """Accuracy and ci95 with classes refined by the queries, for the same episodes and for unequal class sizes."""
    head: NotRequired[dict[str, float]]  # parameters chosen on the validation split for an untrained head


def paired_difference(result: Result, first: Result) -> Accuracy:
    """Return the mean difference of two results over the same episodes, whose paired interval is usually narrower.

    Both need `correct`, and equal numbers of classes and queries.
    """
    per_episode = result["way"] * result["queries"]
    return summarise((np.array(result["correct"]) - np.array(first["correct"])) / per_episode)


def as_result(accuracy: Accuracy, shape: EpisodeShape, seconds: float) -> Result:
    """Return a shape's accuracy in the format of `frn eval --json`."""
    return {
        "way": shape.way,
        "shot": shape.shot,
        "queries": shape.queries,
        "episodes": accuracy.episodes,
        "accuracy": accuracy.mean,
        "ci95": accuracy.ci95,
        "seconds": round(seconds, 3),
    }
