"""Explained energy (R^2 of the reconstruction), and the probability that a photo belongs to one of the classes.

Errors grow with the features, so they cannot be compared between photos; R^2 can. For a query map Q with locations q
and its reconstruction Q_c by class c

    explained = R^2 = 1 - <Q, Q_c> / energy,    energy = mean |q|^2

with <Q, Q_c> of Eq. 4; unlike in statistics, the energy is not centred.

An unknown photo has a large error, also compared with those of the other classes, its probabilities are similar, and
its mean location is far from every class. `known` combines six such terms; `calibration.fit` chooses their weights. A
photo is unknown if its `known` is below the threshold: one number for all photos, which all but a given fraction of the
examples reach.

Distances are those of `enrolment.Centres`.

Shape letters: way classes, q queries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.ridge.parameters import probabilities

RIVALS = 5
"""Number of runner-up classes that the best class is compared with."""
TERMS = 6
LEAST_ERROR, LEAST_DISTANCE = 1e-4, 1e-6
"""Error as a share of the energy, and distance, below which a photo counts as equal to a class."""
TINY = 1e-12
"""Added to errors and energies, so that a photo without energy has an error of 1."""
Shares = NDArray[np.float64]
Errors = NDArray[np.floating]
Measures = tuple[Shares, Shares, Shares]
"""Errors (q, way), energies (q,) and distances (q, way) of photos."""


def explained(errors: Errors, whole: Shares) -> Shares:
    """Return R^2 of each query's reconstruction by each class, at least 0, (q, way).

    The inputs are errors (q, way) and energies (q,). An energy of zero gives 0.
    """
    whole = whole[:, None]
    shares: Shares = 1 - np.divide(errors, whole, out=np.ones(errors.shape), where=whole > 0)
    return shares.clip(0)


def missing(errors: Errors, energies: Shares) -> Shares:
    """Return the share of each photo's energy that each class does not explain, at least `LEAST_ERROR`, (q, way)."""
    shares: Shares = ((errors + TINY) / (energies[:, None] + TINY)).clip(LEAST_ERROR)
    return shares


def terms(measures: Measures, gamma: float) -> Shares:
    """Return six logarithms (q, 6) that are larger for known photos.

    They compare the best class's error with the energy, with the mean error of the next five classes, and with that of
    the second class; the others are its probability, and minus its distance and that of the nearest class. A single
    class is not compared.
    """
    errors, energies, distances = measures
    shares = missing(errors, energies)
    count = min(RIVALS + 1, errors.shape[1])
    least = np.partition(shares, range(count), axis=1)[:, :count]
    best = np.log(least[:, 0])
    found = np.zeros((len(errors), TERMS))
    found[:, 0] = -best
    if count > 1:
        found[:, 1], found[:, 2] = np.log(least[:, 1:].mean(1)) - best, np.log(least[:, 1]) - best
        found[:, 3] = np.log(probabilities(errors, gamma).max(1))
    near = -np.log(distances.clip(LEAST_DISTANCE, 1 / LEAST_DISTANCE))
    found[:, 4], found[:, 5] = near.max(1), near[np.arange(len(near)), errors.argmin(1)]
    return found


@dataclass(frozen=True, slots=True)
class KnownRule:
    """How a photo's terms become the probability that it belongs to one of the classes, and the threshold for it."""

    weights: tuple[float, ...]
    """Weight of each term; none if there are no two photos of a class to learn from."""
    bias: float
    gamma: float
    """Temperature of the classes' probabilities (Eq. 9)."""
    threshold: float = 0.0
    """Probability below which a photo is unknown."""
    margin: float = 0.0
    """Least probability; the largest is 1 minus it. Few examples cannot make it certain that a photo is known."""
    offsets: tuple[float, ...] = ()
    """What each class adds to the score of its photos; none if all classes have as many photos."""

    def known(self, measures: Measures) -> Shares:
        """Return the probability that each photo belongs to one of the classes, (q,); NaN without weights."""
        if not self.weights:
            return np.full(len(measures[0]), np.nan)
        scores = terms(measures, self.gamma) @ np.array(self.weights) + self.bias
        return self.chance(scores + mean_offsets(measures[0], self.gamma, np.array(self.offsets)))

    def chance(self, scores: Shares) -> Shares:
        """Return the probability for weighted sums of terms."""
        return self.margin + (1 - 2 * self.margin) * sigmoid(scores)


def mean_offsets(errors: Errors, gamma: float, offsets: Shares) -> Shares | float:
    """Return the mean of offsets (way,) or (q, way), weighted by the roots of the probabilities, (q,); 0 without any.

    With the probabilities themselves, a large class that takes a photo from a small one decides alone: 3 points less
    AUROC on validation classes with 1 and 20 photos.
    """
    if not len(offsets):
        return 0.0
    roots = np.sqrt(probabilities(errors, gamma))
    return (roots * offsets).sum(1) / roots.sum(1)


NEVER = KnownRule((), bias=0.0, gamma=1.0)
"""Rule that rejects no photo."""


def sigmoid(values: Shares) -> Shares:
    """Return 1 / (1 + exp(-values)), without overflow."""
    chances: Shares = (1 + np.tanh(values / 2)) / 2
    return chances


def without_itself(distances: Shares, labels: Iterable[int | None], counts: Sequence[int] | NDArray[np.intp]) -> Shares:
    """Return distances (n, way) of photos; an example's distance to its own class ignores the example.

    `labels` holds the class of each example and None for other photos; `counts` are the examples of each class.
    """
    own = distances.copy()
    for row, label in enumerate(labels):
        if label is not None:  # the centre of the others is count / (count - 1) times as far away
            count = counts[label]
            own[row, label] = own[row, label] * (count / (count - 1)) ** 2 if count > 1 else np.inf
    return own


def auroc(known: Sequence[float] | Errors, unknown: Sequence[float] | Errors) -> float:
    """Return the fraction of (known, unknown) query pairs in which the known one scores higher; ties count half."""
    order = np.sort(unknown)
    below = np.searchsorted(order, known, side="left") + np.searchsorted(order, known, side="right")
    return float(below.mean() / 2 / len(order))
