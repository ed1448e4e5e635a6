"""The rule for unknown photos, chosen from the examples.

`rule.KnownRule` is fitted by logistic regression. The examples, by leave-one-out, are known photos. They are also
unknown ones, if a photo of another class stands for them in the column of their own class. Few examples cannot tell
which terms matter, so the prior is the sum of three standardised terms with equal weights; with more examples, the
weights follow them. As many unknown as known photos are assumed.

A class with few photos also has a larger error for its own photos. Examples of larger classes, scored as if their class
had as few photos as the smallest one, show how much lower their score is. So each class has an offset, linear in log k,
and a photo's score is raised by their mean, weighted by the roots of its probabilities. The lowest quarter of the
scores is then as low on average as with all photos.

Shape letters: way classes, k supports of a class, n leave-one-out supports, m of them as photos of no class, s of them
with a smaller class.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from frn.inference.unknown.rule import (
    LEAST_DISTANCE,
    NEVER,
    TERMS,
    TINY,
    KnownRule,
    Measures,
    Shares,
    auroc,
    mean_offsets,
    missing,
    sigmoid,
    terms,
)

FALSE_REJECTIONS = 0.05
"""Fraction of leave-one-out supports that may be rejected."""
FIRST = np.array([1, 1, 0, 0, 1, 0]) / np.sqrt(3)
"""Terms of the prior, a sum of unit length: error as a share of the energy and of the next classes', and distance."""
SUM, SUM_PENALTY, PENALTY = 1.0, 30.0, 20.0
"""Expected weight of the sum; penalties on another one, and on other weights of the terms. They have the largest AUROC
and the least calibration error on validation classes (2 to 12 classes of 2 to 20 photos)."""
ROWS = 400
"""Least number of unknown photos in the fit; with fewer examples, several photos stand for each in its own class."""
BETWEEN = 0.3
"""Share of the variance of scores that is between classes. Small classes are others than those that show what few
photos cost: from the mean of g classes, the variance of new ones is 1 + BETWEEN / g, that of their own 1 - BETWEEN / g.
Without it, 6 to 8% of the photos of small classes are rejected, and 15% with one larger class; with it, 4 to 7%."""
REPEATED = 1.0
"""Strength of the correction of the expected rate for few classes (`Calibration.caught`)."""
STEPS = 50
"""Maximum number of Newton steps; 10 are usual."""
UNCHECKED = (
    "one photo of each class cannot show how sure answers should be, nor which photos are unknown: "
    "this needs a class with two photos"
)
MAX_SAMPLED = 1000
"""Maximum number of leave-one-out supports to calibrate on; if there are more, an even selection is used."""
MAX_SEARCHED = 200
"""The same if the subject of each one is searched for, which takes ten times as long."""


def fit(known: Shares, unknown: Shares) -> tuple[Shares, float]:
    """Return weights (6,) and bias of a logistic regression between terms of known (n, 6) and unknown (m, 6) photos.

    Terms that do not vary have no weight. Without unknown photos, the weights are those of the sum, and the bias gives
    the probability 1/2 to the lowest `FALSE_REJECTIONS` of the known ones.
    """
    sides = [side for side in (known, unknown) if len(side)]
    mean = np.mean([side.mean(0) for side in sides], axis=0)
    spread = np.sqrt(np.mean([side.var(0) for side in sides], axis=0))
    scale = np.where(spread > 1e-4, spread, np.inf)  # terms are logarithms: less is rounding
    if not len(unknown):
        weights = SUM * FIRST / scale
        return weights, -low_quantile(known @ weights, FALSE_REJECTIONS)
    inputs = np.concatenate([(side - mean) / scale for side in sides])
    design = np.column_stack([inputs @ FIRST, inputs, np.ones(len(inputs))])
    truth = np.repeat([1.0, 0.0], [len(known), len(unknown)])
    shares = np.repeat([1.0, len(known) / len(unknown)], [len(known), len(unknown)])
    penalty, prior = np.array([SUM_PENALTY, *[PENALTY] * TERMS, TINY]), np.zeros(TERMS + 2)
    prior[0] = SUM

    def loss(found: Shares) -> float:
        misfit = np.logaddexp(0, np.where(truth, -1, 1) * (design @ found))
        return float(shares @ misfit + penalty @ np.square(found - prior) / 2)

    found, before = prior, loss(prior)
    for _ in range(STEPS):
        chances = sigmoid(design @ found)
        slope = design.T @ (shares * (chances - truth)) + penalty * (found - prior)
        bend = (design.T * (shares * chances * (1 - chances))) @ design + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        while (after := loss(found - step)) > before and np.abs(step).max() > 1e-9:
            step = step / 2
        if after >= before:
            break
        found, before = found - step, after
    weights = (found[0] * FIRST + found[1:-1]) / scale
    return weights, float(found[-1] - weights @ mean)


def low_quantile(scores: Shares, fraction: float) -> float:
    """Return a number that this fraction of new photos is expected to be below, from the scores of others (n,).

    Of n photos, a fraction of 1 / (n + 1) of new ones is expected below the lowest. Below it, the tail is exponential,
    with the scale of the lowest quarter.
    """
    ranked, place = np.sort(scores), fraction * (len(scores) + 1) - 1
    if place >= 0:
        return float(np.interp(place, np.arange(len(ranked)), ranked))
    few = min(max(1, len(ranked) // 4), len(ranked) - 1)
    scale = (ranked[few] - ranked[0]) / max(1, np.sum(1 / np.arange(1, few + 1)))
    return float(ranked[0] + scale * np.log(max(place + 1, TINY)))


def _lowest(scores: Shares) -> float:
    return float(np.sort(scores)[: max(1, len(scores) // 4)].mean())


@dataclass(frozen=True)
class Calibration:
    """Rule calibrated on the examples, and its expected error rates."""

    known: Shares
    """Leave-one-out `known` of the supports, (n,)."""
    strangers: Shares
    """`known` of the same supports as photos of no class (`_strangers`), (m,); empty if there is only one class."""
    fitted: KnownRule = NEVER
    """The rule without its threshold."""
    false_rejections: float = FALSE_REJECTIONS
    others: Shares = field(default_factory=lambda: np.zeros(0))
    """`known` of photos that the user marked as none of the classes."""
    smaller: Shares = field(default_factory=lambda: np.zeros(0))
    """`known` of supports as if their class had as few photos as the smallest one, (s,); as of other classes."""
    way: int = 1
    """Number of classes."""

    @property
    def unchecked(self) -> str:
        """Return why neither probabilities nor the threshold could be checked on the examples; empty if they were."""
        return "" if len(self.known) else UNCHECKED

    @cached_property
    def rule(self) -> KnownRule:
        """Return the rule that rejects the stated fraction of known photos, or none without two supports of a class.

        It rejects more if this loses fewer known photos than it rejects of those marked as none of the classes.
        """
        if not len(self.known):
            return NEVER
        stated = min(self._limit(side) for side in (self.known, self.smaller) if len(side))
        limits = np.array([stated, *np.nextafter(self.others[self.others >= stated], np.inf)])
        rejected = (self.known < limits[:, None]).sum(1) + (self.others >= limits[:, None]).sum(1)
        return replace(self.fitted, threshold=min(float(limits[rejected.argmin()]), 1.0))

    def _limit(self, chances: Shares) -> float:
        if (limit := low_quantile(chances, self.false_rejections)) < chances.min():
            odds = np.log(chances.clip(TINY) / (1 - chances).clip(TINY))  # of which no number is too low
            limit = float(sigmoid(np.array(low_quantile(odds, self.false_rejections))))
        return limit

    @property
    def rejected(self) -> float:
        """Return the expected fraction of known photos that are rejected: the stated one, or more (see `rule`).

        NaN if nothing could be checked.
        """
        if self.unchecked:
            return float("nan")
        more = float((self.known < self.rule.threshold).mean()) if len(self.others) else 0.0
        return max(self.false_rejections, more)

    @cached_property
    def caught(self) -> float:
        """Return the expected fraction of unknown photos that are rejected; NaN if not measurable.

        Among few classes, a support as a photo of no class is compared with one pair of classes twice, and the nearest
        of several different classes is nearer. The fraction is raised to a power that corrects this on validation
        classes: 7 points too many with two or three classes of five photos become less than 1.
        """
        if not len(self.strangers):
            return float("nan")
        power = 1 + REPEATED / (self.way - 1) ** 2 if self.way > 1 else 1
        return float((self.strangers < self.rule.threshold).mean() ** power)

    @property
    def caught_error(self) -> float:
        """Return the standard error of `caught`; NaN if not measurable.

        Photos of an unknown class are mostly rejected together or not at all, so the rate is as uncertain as that of
        one photo for each class (with two more, one of which is rejected, if there are only a few). In 1,896 draws of
        validation classes, 2 to 12 classes of 2 to 20 photos, the measured rate differs by 34 to 14 points.
        """
        share = (self.caught * self.way + 1) / (self.way + 2)
        return float(np.sqrt(share * (1 - share) / self.way))

    @cached_property
    def auroc(self) -> float:
        """Return the probability that a known photo has a larger `known` than an unknown one; NaN if not measurable."""
        return auroc(self.known, self.strangers) if len(self.strangers) else float("nan")

    def describe(self) -> str:
        """Return the expected error rates in one line."""
        if not len(self.known):
            return UNCHECKED
        if not len(self.strangers):
            return f"rejects about {self.rejected:.0%} of your photos; with one class, other rates are unknown"
        rate = f"{self.caught:.0%} of other photos (± {self.caught_error:.0%}, AUROC {self.auroc:.2f})"
        if self.caught < 2 * self.rejected:
            return (
                f"unknown photos can hardly be distinguished from these classes: rejecting {self.rejected:.0%} "
                f"of your photos catches {rate}"
            )
        return f"rejects about {self.rejected:.0%} of your photos and {rate}"


def calibrate(
    measures: Measures,
    labels: NDArray[np.intp],
    gamma: float,
    false_rejections: float = FALSE_REJECTIONS,
    others: Measures | None = None,
    counts: Sequence[int] = (),
    smaller: Shares | None = None,
) -> Calibration:
    """Calibrate from supports: their measures, and their classes (n,).

    A support's error and distance for its own class must be computed without the support. `others` are the measures of
    photos that are known to belong to none of the classes. If the classes have different `counts` of photos (way,),
    `smaller` has the error and the distance (n, 2) of supports for their own class as if it had the smallest of them;
    they are negative if not computed.
    """
    errors, way = measures[0], measures[0].shape[1]
    if not len(labels):
        return Calibration(nothing := np.zeros(0), nothing, false_rejections=false_rejections)
    known = terms(measures, gamma)
    unknown = np.concatenate([np.zeros((0, TERMS)), *(terms(each, gamma) for each in _strangers(measures, labels))])
    weights, bias = fit(known, unknown)
    scores, foreign = known @ weights + bias, unknown @ weights + bias
    fitted = KnownRule(tuple(weights.tolist()), bias, gamma, margin=0.5 / (len(known) + 1))
    few = np.zeros(0)
    if smaller is not None and (chosen := smaller[:, 0] >= 0).any():
        as_few = errors[chosen].astype(np.float64), measures[1][chosen], measures[2][chosen]
        place = np.arange(chosen.sum()), labels[chosen]
        as_few[0][place], as_few[2][place] = smaller[chosen].T
        needs = np.log(max(counts) / np.array(counts)) / np.log(max(counts) / min(counts))  # of the smallest class: 1
        needed = np.repeat(needs[None], chosen.sum(), axis=0)
        needed[place] = 1
        reached = terms(as_few, gamma) @ weights + bias
        share = mean_offsets(as_few[0], gamma, needed)
        factor = max(0.0, (_lowest(scores) - _lowest(reached)) / float(np.mean(share)))
        fitted = replace(fitted, offsets=tuple((factor * needs).tolist()))
        raised_few, larger = reached + factor * share, len(np.unique(labels[chosen]))
        wider = math.sqrt((larger + BETWEEN) / (larger - BETWEEN))
        few = fitted.chance(raised_few.mean() + wider * (raised_few - raised_few.mean()))
        scores = scores + mean_offsets(errors, gamma, factor * needs)
        raised = [mean_offsets(each, gamma, factor * needs) for each, *_ in _strangers(measures, labels)]
        foreign = foreign + np.concatenate(raised)
    marked = np.zeros(0) if others is None else fitted.known(others)
    return Calibration(fitted.chance(scores), fitted.chance(foreign), fitted, false_rejections, marked, few, way)


def _strangers(measures: Measures, labels: NDArray[np.intp]) -> Iterator[Measures]:
    """Yield measures of supports as photos of no class; none if there is only one class.

    The error and the distance of a support's own class are those of another class's support, so that unknown photos are
    compared with as many classes as known ones. They are scaled by how much both photos differ for all other classes,
    because some photos are explained less well by every class. If no other class has a support, another class stands
    for it.
    """
    errors, energies, distances = measures
    count, way = errors.shape
    rows, others = np.arange(count), count - np.bincount(labels, minlength=way)[labels]
    # Class by class, by error: the order of files and classes decides nothing.
    own_errors, least = errors[rows, labels], np.full(way, np.inf)
    np.minimum.at(least, labels, own_errors)
    places = np.argsort(np.argsort(least, kind="stable"))[labels]
    order = np.lexsort((own_errors, places))
    ranks, after = np.argsort(order), np.searchsorted(places[order], places, side="right")
    shares = np.log(missing(errors, energies))
    away = np.log(distances.clip(LEAST_DISTANCE, 1 / LEAST_DISTANCE))
    turns = math.ceil(ROWS / count) if way > 1 else 0
    turns += 0 if others.any() or not turns else -turns % (way - 1)  # each other class stands as often
    for turn in range(turns):
        offsets = (ranks + turn * (others // turns).clip(1)) % others.clip(1)
        donors = np.where(others, order[(after + offsets) % count], rows)
        columns = np.where(others, labels, (labels + 1 + turn % (way - 1)) % way)
        compared = np.ones(errors.shape)
        compared[rows, labels] = compared[rows, labels[donors]] = 0
        replaced = []
        for values in (shares, away):
            level = ((values - values[donors]) * compared).sum(1) / max(way - 2, 1)
            own = values.copy()
            own[rows, labels] = values[donors, columns] + level
            replaced.append(np.exp(own))
        yield replaced[0] * energies[:, None], energies, replaced[1]


def stride(count: int, find: str = "none") -> int:
    """Return the step for an even selection from `count` supports, which is smaller if each one is searched."""
    return max(1, math.ceil(count / (MAX_SAMPLED if find == "none" else MAX_SEARCHED)))
