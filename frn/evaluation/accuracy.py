"""Mean accuracy and its 95% interval, as the paper reports them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
