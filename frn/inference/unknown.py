"""Explained energy (R^2 of the reconstruction), and how much of it makes a photo known.

Errors grow with the features, so they cannot be compared between photos; R^2 can. For a query map Q with locations q
and its reconstruction Q_c by class c

    explained = R^2 = 1 - <Q, Q_c> / energy,    energy = mean |q|^2

with <Q, Q_c> of Eq. 4; unlike in statistics, the energy is not centred. However, some photos are easy for every class.
So the error of the best class is compared with the energy and with the mean error of the runner-up classes. An unknown
photo is also farther from every class in its mean location, so its squared distance to the nearest class also counts:

    familiarity = 1 - best / (energy^(1 - w) (rivals / distance)^w)

A photo is unknown if its familiarity is below a limit, which is equivalent to a limit on its explained fraction. The
limit is calibrated on the examples: each is scored by leave-one-out, and all but a given fraction of them must reach
the limit. Without its own class, each example also serves as a photo of an unknown class, which gives the expected
fraction of unknown photos rejected.

Distances are those of `enrolment.Centres`.

Shape letters: way classes, k supports of a class, r locations, d channels, q queries, n leave-one-out supports.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FALSE_REJECTIONS = 0.05
"""Fraction of leave-one-out supports that may be rejected."""
RIVALS = 5
"""Number of runner-up classes that the best class is compared with."""
WEIGHT = 0.5
"""Weight w of the rivals and the distance; the energy has weight 1 - w."""
LEAST_DISTANCE = 1e-6
"""Distance below which a photo counts as equal to a class."""
MAX_SAMPLED = 1000
"""Maximum number of leave-one-out supports to calibrate on; if there are more, an even selection is used."""
MAX_SEARCHED = 200
"""The same if the subject of each one is searched for, which takes ten times as long."""

Shares = NDArray[np.float64]
Errors = NDArray[np.floating]


def explained(errors: Errors, whole: Shares) -> Shares:
    """Return R^2 of each query's reconstruction by each class, at least 0, (q, way).

    The inputs are errors (q, way) and energies (q,). An energy of zero gives 0.
    """
    whole = whole[:, None]
    shares: Shares = 1 - np.divide(errors, whole, out=np.ones(errors.shape), where=whole > 0)
    return shares.clip(0)


def rivals_error(errors: Errors, whole: Shares, distances: Shares) -> Shares:
    """Return the mean error (q,) of the classes after the best one divided by the distance to the nearest class.

    The inputs are errors and distances (q, way) and energies (q,). With a single class, the energy is its rival.
    """
    near = distances.min(1).clip(LEAST_DISTANCE)
    if errors.shape[1] < 2:
        return whole / near
    count = min(RIVALS + 1, errors.shape[1])
    least = np.partition(errors.astype(np.float64), range(count), axis=1)[:, :count]
    return least[:, 1:].mean(1) / near


def familiarity(errors: Errors, whole: Shares, distances: Shares, weight: float = WEIGHT) -> Shares:
    """Return the familiarity of queries, (q,): the best class's error compared with energy and rivals; 1 is perfect."""
    reference = whole ** (1 - weight) * rivals_error(errors, whole, distances).clip(0) ** weight
    best = errors.min(1).clip(0)
    return 1 - np.divide(best, reference, out=np.ones(len(best)), where=reference > 0)


@dataclass(frozen=True, slots=True)
class RejectRule:
    """Rule that decides when a photo is unknown."""

    least: float
    """Minimum familiarity of a known photo."""
    weight: float = 0.0
    """Weight of the rivals; 0 uses the explained fraction alone, as for a threshold set by the user."""

    def thresholds(self, errors: Errors, whole: Shares, distances: Shares) -> Shares:
        """Return the fraction of each query that a class must reconstruct, (q,).

        The inputs are errors and distances (q, way) and energies (q,).
        """
        rivals = rivals_error(errors, whole, distances)
        share = np.divide(rivals, whole, out=np.ones(len(whole)), where=whole > 0).clip(0)
        needed: Shares = 1 - (1 - self.least) * share**self.weight
        return needed.clip(0)


NEVER = RejectRule(0.0)
"""Rule that rejects no photo."""


@dataclass(frozen=True)
class Calibration:
    """Rejection rule calibrated on the examples, and its expected error rates."""

    known: Shares
    """Leave-one-out familiarity of the supports, (n,)."""
    strangers: Shares
    """Familiarity of the same supports without their whole class, (n,); empty if there is only one class."""
    typical: float = 0.0
    """Median fraction of the supports that a class must reconstruct; 0 if there are no supports."""
    false_rejections: float = FALSE_REJECTIONS
    others: Shares = field(default_factory=lambda: np.zeros(0))
    """Familiarity of photos that the user marked as none of the classes."""
    rejects: bool = True
    """True if the threshold of at least one support is above 0."""

    @cached_property
    def rule(self) -> RejectRule:
        """Return the rule that rejects the stated fraction of known photos, or none without two supports of a class.

        It rejects more if this loses fewer known photos than it rejects of those marked as none of the classes.
        """
        if not len(self.known):
            return NEVER
        stated = float(np.quantile(self.known, self.false_rejections))
        limits = np.array([stated, *np.nextafter(self.others[self.others >= stated], np.inf)])
        rejected = (self.known < limits[:, None]).sum(1) + (self.others >= limits[:, None]).sum(1)
        return RejectRule(float(limits[rejected.argmin()]), WEIGHT)

    @property
    def rejected(self) -> float:
        """Return the expected fraction of known photos that are rejected: the stated one, or more (see `rule`)."""
        more = float((self.known < self.rule.least).mean()) if len(self.others) else 0.0
        return max(self.false_rejections, more)

    @cached_property
    def caught(self) -> float:
        """Return the expected fraction of unknown photos that are rejected; NaN if not measurable."""
        return float((self.strangers < self.rule.least).mean()) if len(self.strangers) else float("nan")

    @cached_property
    def auroc(self) -> float:
        """Return the probability that a known photo is more familiar than an unknown one; NaN if not measurable."""
        return auroc(self.known, self.strangers) if len(self.strangers) else float("nan")

    def describe(self) -> str:
        """Return the expected error rates in one line."""
        if not len(self.known):
            return "unknown photos cannot be detected: this needs a class with two photos"
        if not len(self.strangers):
            return f"rejects about {self.rejected:.0%} of your photos; with one class, other rates are unknown"
        if not self.rejects:
            return "no photo is rejected as unknown, because this model gives all classes similar probabilities"
        if self.caught < 2 * self.rejected:
            return (
                f"unknown photos can hardly be distinguished from these classes: rejecting {self.rejected:.0%} "
                f"of your photos catches {self.caught:.0%} of other photos (AUROC {self.auroc:.2f})"
            )
        return (
            f"rejects about {self.rejected:.0%} of your photos and {self.caught:.0%} of other photos "
            f"(AUROC {self.auroc:.2f})"
        )


def calibrate(
    errors: Errors,
    labels: NDArray[np.intp],
    whole: Shares,
    distances: Shares,
    false_rejections: float = FALSE_REJECTIONS,
    others: Shares | None = None,
) -> Calibration:
    """Calibrate from supports: their errors and distances (n, way), classes and energies (n,).

    A support's error and distance for its own class must be computed without the support. `others` is the familiarity
    of photos that are known to belong to none of the classes.
    """
    others = np.zeros(0) if others is None else others
    if not len(errors):
        return Calibration(np.zeros(0), np.zeros(0), false_rejections=false_rejections)
    is_foreign = np.ones(errors.shape, dtype=bool)
    is_foreign[np.arange(len(errors)), labels] = False
    foreign, away = errors[is_foreign].reshape(len(errors), -1), distances[is_foreign].reshape(len(errors), -1)
    strangers = familiarity(foreign, whole, away) if foreign.shape[1] else np.zeros(0)
    known = familiarity(errors, whole, distances)
    found = Calibration(known, strangers, false_rejections=false_rejections, others=others)
    thresholds = found.rule.thresholds(errors, whole, distances)
    return replace(found, typical=float(np.median(thresholds)), rejects=bool(thresholds.any()))


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


def stride(count: int, find: str = "none") -> int:
    """Return the step for an even selection from `count` supports, which is smaller if each one is searched."""
    return max(1, -(-count // (MAX_SAMPLED if find == "none" else MAX_SEARCHED)))


def auroc(known: Sequence[float] | Errors, unknown: Sequence[float] | Errors) -> float:
    """Return the fraction of (known, unknown) query pairs in which the known one scores higher; ties count half."""
    order = np.sort(unknown)
    below = np.searchsorted(order, known, side="left") + np.searchsorted(order, known, side="right")
    return float(below.mean() / 2 / len(order))
