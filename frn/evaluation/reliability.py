"""Calibration: compare the probabilities of answers with their accuracy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""Number of equal-width bins of a reliability diagram, as in Guo et al. (ICML 2017)."""

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Queries grouped by the probability of their answer, in bins of equal width."""

    counts: Counts
    confidence: Shares
    """Mean probability of a bin's answers; 0 for an empty bin."""
    accuracy: Shares
    """Fraction of a bin's answers that are correct; 0 for an empty bin."""

    @classmethod
    def of(cls, probability: Shares, right: NDArray[np.bool_], bins: int = BINS) -> "Calibration":
        """Compare the answers' probabilities with their correctness."""
        place = np.minimum((probability * bins).astype(np.int64), bins - 1)
        counts = np.bincount(place, minlength=bins)
        means = (np.bincount(place, values, bins) / np.maximum(counts, 1) for values in (probability, right))
        return cls(counts, *means)

    @property
    def error(self) -> float:
        """Expected calibration error: the gap between confidence and accuracy, weighted by the counts."""
        return float((self.counts * np.abs(self.confidence - self.accuracy)).sum() / max(1, self.counts.sum()))
