"""Predictions of all queries of an evaluation, and statistics of them.

Shape letters: e episodes, way, q = way * queries query images of an episode, classes and images of the whole split.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.episodes import EpisodeShape

BINS = 15
"""Bins of equal width of a reliability diagram, as in Guo et al. (ICML 2017)."""

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Queries by the probability of their answer, in bins of equal width."""

    counts: Counts
    confidence: Shares
    """Mean probability of a bin's answers; 0 where the bin is empty."""
    accuracy: Shares
    """Share of a bin's answers that are right; 0 where the bin is empty."""

    @classmethod
    def of(cls, probability: Shares, right: NDArray[np.bool_], bins: int = BINS) -> "Calibration":
        """Compare the probabilities of answers with which of them are right."""
        place = np.minimum((probability * bins).astype(np.int64), bins - 1)
        counts = np.bincount(place, minlength=bins)
        means = (np.bincount(place, values, bins) / np.maximum(counts, 1) for values in (probability, right))
        return cls(counts, *means)

    @property
    def error(self) -> float:
        """Expected calibration error: the gap between both, weighted by the counts."""
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
        """Number of the class it was taken for."""
        self.probability = np.zeros(queries, dtype=np.float32)
        """That class's."""

    def add(self, start: int, sampled: NDArray[np.int64], logits: NDArray[np.floating]) -> None:
        """Note episodes (e, way, shot + queries) from number `start` on, with their logits (e, q, way)."""
        here = slice(start, start + len(sampled))
        self.image[here] = sampled[:, :, self.shape.shot :].reshape(len(sampled), -1)
        best = logits.argmax(-1)
        self.answer[here] = np.take_along_axis(self.class_of(sampled[:, :, 0]), best, axis=1)
        gaps = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
        self.probability[here] = 1 / gaps.sum(-1)

    def class_of(self, image: NDArray[np.int64]) -> Counts:
        """Numbers of the classes of images, by their numbers in the split."""
        return np.searchsorted(self.ends, image, side="right")

    @property
    def right(self) -> NDArray[np.bool_]:
        """Return whether each query got its own class, (e, q)."""
        return self.answer == self.class_of(self.image)

    def confusion(self) -> Counts:
        """How often a class's queries (rows) were taken for a class (columns)."""
        classes = len(self.sizes)
        pairs = self.class_of(self.image) * classes + self.answer
        return np.bincount(pairs.ravel(), minlength=classes * classes).reshape(classes, classes)

    def recall(self) -> tuple[Shares, Shares]:
        """Share of each class's queries that got it, and half the width of its 95% interval, over episodes; in percent.

        NaN for a class that was never drawn.
        """
        by_class = self.right.reshape(len(self.right), self.shape.way, -1).mean(-1).ravel()
        sampled = self.class_of(self.image[:, :: self.shape.queries]).ravel()
        counts = np.bincount(sampled, minlength=len(self.sizes))
        with np.errstate(invalid="ignore"):
            mean = np.bincount(sampled, by_class, len(self.sizes)) / counts
            spread = np.bincount(sampled, np.square(by_class - mean[sampled]), len(self.sizes)) / counts
            return 100 * mean, 196 * np.sqrt(spread / counts)

    def calibration(self) -> Calibration:
        """Reliability of the answers' probabilities."""
        return Calibration.of(self.probability.ravel().astype(np.float64), self.right.ravel())

    def hardest_episodes(self, most: int) -> Counts:
        """Numbers of the episodes with the fewest right answers, the worst first."""
        return np.argsort(self.right.mean(-1), kind="stable")[:most]

    def hardest_images(self, most: int) -> Counts:
        """Images that were taken for another class, those with the largest share of wrong answers first.

        For each, one wrong answer is counted less, so that an image that was asked once does not lead.
        """
        asked, wrong = self.asked()
        order = np.argsort(-(wrong - 1) / np.maximum(asked, 1), kind="stable")
        return order[wrong[order] > 0][:most]

    def asked(self) -> tuple[Counts, Counts]:
        """How often each image of the split was a query, and how often it was answered wrongly."""
        images, total = self.image.ravel(), int(self.ends[-1])
        return np.bincount(images, minlength=total), np.bincount(images[~self.right.ravel()], minlength=total)

    def surest_mistake(self, image: int) -> tuple[int, int]:
        """Episode and query in which an image was taken for another class with the largest probability."""
        places = np.argwhere((self.image == image) & ~self.right)
        episode, query = places[self.probability[tuple(places.T)].argmax()]
        return int(episode), int(query)
