"""Count the answers to all queries in an evaluation, by class, by image and by episode.

Shape letters: e episodes, way, q = way * queries query images of an episode, classes and images of the whole split.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frn.episodes import EpisodeShape
from frn.evaluation.labelled import Counts, ReliabilityDiagram, Shares

BINS = 15
"""Number of equal-width bins of a reliability diagram, as in Guo et al. (ICML 2017)."""


class Tally:
    """The answers to all queries in an evaluation."""

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
        """Add the episodes (e, way, shot + queries) from number `start` on, with their logits (e, q, way)."""
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
        """Return whether each query was assigned to its own class, (e, q)."""
        return self.answer == self.class_of(self.image)

    def calibration(self) -> ReliabilityDiagram:
        """Return the reliability of the answers' probabilities."""
        return ReliabilityDiagram.of(self.probability.ravel().astype(np.float64), self.right.ravel(), BINS)


def confusion(tally: Tally) -> Counts:
    """Count how often a class's queries (rows) were predicted as each class (columns)."""
    classes = len(tally.sizes)
    pairs = tally.class_of(tally.image) * classes + tally.answer
    return np.bincount(pairs.ravel(), minlength=classes * classes).reshape(classes, classes)


def recall(tally: Tally) -> tuple[Shares, Shares]:
    """Return each class's recall and the half-width of its 95% interval over episodes, in percent.

    Classes that were never drawn have NaN.
    """
    by_class = tally.right.reshape(len(tally.right), tally.shape.way, -1).mean(-1).ravel()
    sampled = tally.class_of(tally.image[:, :: tally.shape.queries]).ravel()
    counts = np.bincount(sampled, minlength=len(tally.sizes))
    with np.errstate(invalid="ignore"):
        mean = np.bincount(sampled, by_class, len(tally.sizes)) / counts
        spread = np.bincount(sampled, np.square(by_class - mean[sampled]), len(tally.sizes)) / counts
        return 100 * mean, 196 * np.sqrt(spread / counts)


def hardest_episodes(tally: Tally, most: int) -> Counts:
    """Return the numbers of the episodes with the fewest correct answers, the worst first."""
    return np.argsort(tally.right.mean(-1), kind="stable")[:most]


def hardest_images(tally: Tally, most: int) -> Counts:
    """Return misclassified images, those with the largest fraction of wrong answers first.

    One wrong answer of each image is ignored, so that an image that was a query only once does not come first.
    """
    counts, wrong = asked(tally)
    order = np.argsort(-(wrong - 1) / np.maximum(counts, 1), kind="stable")
    return order[wrong[order] > 0][:most]


def asked(tally: Tally) -> tuple[Counts, Counts]:
    """Count how often each image of the split was a query, and how often its answer was wrong."""
    images, total = tally.image.ravel(), int(tally.ends[-1])
    return np.bincount(images, minlength=total), np.bincount(images[~tally.right.ravel()], minlength=total)


def surest_mistake(tally: Tally, image: int) -> tuple[int, int]:
    """Return the episode and query of an image's wrong answer with the largest probability."""
    places = np.argwhere((tally.image == image) & ~tally.right)
    episode, query = places[tally.probability[tuple(places.T)].argmax()]
    return int(episode), int(query)
