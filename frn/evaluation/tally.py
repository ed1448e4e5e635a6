"""Answers to all queries of an evaluation, and statistics of them.

Shape letters: e episodes, way, q = way * queries query images of an episode, classes and images of the whole split.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.episodes import EpisodeShape

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
    """Fraction of a bin's answers that are right; 0 for an empty bin."""

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


class Tally:
    """The answers to all queries of an evaluation."""

    def __init__(self, sizes: Sequence[int], shape: EpisodeShape, episodes: int) -> None:
        self.sizes, self.shape = tuple(sizes), shape
        self.ends = np.cumsum(sizes)
        queries = (episodes, shape.way * shape.queries)
        self.image = np.zeros(queries, dtype=np.int64)
        """Number of the query image in the split."""
        self.answer = np.zeros(queries, dtype=np.int64)
        """Number of the predicted class."""
        self.probability = np.zeros(queries, dtype=np.float32)
        """Probability of the predicted class."""

    def add(self, start: int, sampled: NDArray[np.int64], logits: NDArray[np.floating]) -> None:
        """Add episodes (e, way, shot + queries) from number `start` on, with their logits (e, q, way)."""
        here = slice(start, start + len(sampled))
        self.image[here] = sampled[:, :, self.shape.shot :].reshape(len(sampled), -1)
        best = logits.argmax(-1)
        self.answer[here] = np.take_along_axis(self.class_of(sampled[:, :, 0]), best, axis=1)
        gaps = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
        self.probability[here] = 1 / gaps.sum(-1)

    def class_of(self, image: NDArray[np.int64]) -> Counts:
        """Return the class numbers of images, given by their numbers in the split."""
        return np.searchsorted(self.ends, image, side="right")

    @property
    def right(self) -> NDArray[np.bool_]:
        """Return whether each query got its own class, (e, q)."""
        return self.answer == self.class_of(self.image)

    def confusion(self) -> Counts:
        """Count how often a class's queries (rows) were predicted as each class (columns)."""
        classes = len(self.sizes)
        pairs = self.class_of(self.image) * classes + self.answer
        return np.bincount(pairs.ravel(), minlength=classes * classes).reshape(classes, classes)

    def recall(self) -> tuple[Shares, Shares]:
        """Return each class's recall and the half-width of its 95% interval over episodes, in percent.

        Classes that were never drawn have NaN.
        """
        by_class = self.right.reshape(len(self.right), self.shape.way, -1).mean(-1).ravel()
        sampled = self.class_of(self.image[:, :: self.shape.queries]).ravel()
        counts = np.bincount(sampled, minlength=len(self.sizes))
        with np.errstate(invalid="ignore"):
            mean = np.bincount(sampled, by_class, len(self.sizes)) / counts
            spread = np.bincount(sampled, np.square(by_class - mean[sampled]), len(self.sizes)) / counts
            return 100 * mean, 196 * np.sqrt(spread / counts)

    def calibration(self) -> Calibration:
        """Return the reliability of the answers' probabilities."""
        return Calibration.of(self.probability.ravel().astype(np.float64), self.right.ravel())

    def hardest_episodes(self, most: int) -> Counts:
        """Return the numbers of the episodes with the fewest right answers, the worst first."""
        return np.argsort(self.right.mean(-1), kind="stable")[:most]

    def hardest_images(self, most: int) -> Counts:
        """Return misclassified images, those with the largest fraction of wrong answers first.

        One wrong answer of each image is not counted, so that an image queried once does not come first.
        """
        asked, wrong = self.asked()
        order = np.argsort(-(wrong - 1) / np.maximum(asked, 1), kind="stable")
        return order[wrong[order] > 0][:most]

    def asked(self) -> tuple[Counts, Counts]:
        """Count how often each image of the split was a query, and how often its answer was wrong."""
        images, total = self.image.ravel(), int(self.ends[-1])
        return np.bincount(images, minlength=total), np.bincount(images[~self.right.ravel()], minlength=total)

    def surest_mistake(self, image: int) -> tuple[int, int]:
        """Return the episode and query of an image's wrong answer with the largest probability."""
        places = np.argwhere((self.image == image) & ~self.right)
        episode, query = places[self.probability[tuple(places.T)].argmax()]
        return int(episode), int(query)
