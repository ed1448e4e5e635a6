"""Classes with different numbers of photos.

Each further photo of a class adds directions to its pool, so the class reconstructs every photo better, also those of
other classes: it takes photos from smaller classes. How much is measured on the examples of the other classes: the
error of a class with as few photos as the smallest class has, less its error with all photos. These drops grow with the
logarithm of the number of photos, k. A slope that is fitted to the drops of all classes is more accurate than the drop
of each class, which is noisy with few examples:

    error_c = e_c + slope log(k_c / k_min) max(0, e_c - usual energy)

with e_c of Eq. 4. A photo that a class explains as well as its own photos, which have about the usual error, is not
compared at a disadvantage: it probably belongs to the class. So photos in the proportions of the classes, most of which
belong to large ones, lose nothing. Nothing changes if all classes have the same number of photos.

Wherever some photos stand for all, they are taken in an order that depends on nothing but their maps (`by_content`), so
that the order of files decides no answer.

Shape letters: way classes, k supports of a class, r locations, d channels, n examples.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frn.ridge.enrolment import NO_ALLOWANCE, Allowance, ClassScorer, EnrolledClass, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters

USUAL, LEAST = 1.1, 0.15
"""The usual error, in multiples of the mean leave-one-out error of the larger classes, and the least share of other
photos' errors that exceeds it on average. With 1.0, photos in the proportions of many small classes lose 0.2 points;
with 1.2, the mean over the classes gains two thirds as much. Without the least share, classes that are hardly apart,
such as tiny photos of food, get a slope that costs photos in their proportions 11 points (docs/lab/recipes.md)."""
TINY = float(np.finfo(np.float32).tiny)
SELECTED, MAX_CLASSES, MAX_EXAMPLES = 12, 12, 128
"""Photos that stand for a larger class, in at least three selections; number of larger classes and of examples on which
the slope is fitted. With three single photos, the slope changed by a fifth with the order of the files; with twelve, by
a 25th."""


def by_content(pool: NDArray[np.floating]) -> NDArray[np.intp]:
    """Return the places of a class's photos (k, r, d) in the order of their sums, (k,)."""
    return np.argsort(pool.sum((1, 2), dtype=np.float64), kind="stable")


def enroll_all(pools: Sequence[NDArray[np.floating]], head: HeadParameters) -> list[EnrolledClass]:
    """Enroll classes from feature maps of their supports, (k, r, d) each, with their allowances."""
    classes = [enroll(pool, head) for pool in pools]
    return [replace(one, allowance=more) for one, more in zip(classes, allowances(pools, head), strict=True)]


def allowances(pools: Sequence[NDArray[np.floating]], head: HeadParameters) -> list[Allowance]:
    """Return the allowance of each class, from feature maps of all supports, (k, r, d) each."""
    counts = np.array([len(pool) for pool in pools])
    least = counts.min(initial=np.iinfo(np.intp).max)
    growth = np.log(counts / least)
    if not growth.any():
        return [NO_ALLOWANCE] * len(pools)
    larger = np.flatnonzero(growth)
    larger = larger[np.argsort(counts[larger], kind="stable")][:: -(-len(larger) // MAX_CLASSES)]
    orders = [by_content(pool) for pool in pools]
    owners = np.repeat(np.arange(len(pools)), counts)
    chosen = np.arange(0, len(owners), -(-len(owners) // MAX_EXAMPLES))
    places = np.concatenate(orders)[chosen].tolist()
    examples = np.stack([pools[label][place] for label, place in zip(owners[chosen].tolist(), places, strict=True)])
    owners, norms = owners[chosen], energy(examples).clip(TINY)
    own, before, after = [], [], []
    for label in larger.tolist():
        pool = pools[label][orders[label]]
        count = min(len(pool), max(3, SELECTED // least))
        firsts = np.arange(count) * len(pool) // count
        fewer = [enroll(pool[(first + np.arange(least)) % len(pool)], head) for first in firsts]
        own.append((leave_one_out(pool, head) / energy(pool).clip(TINY)).mean())
        before.append(ClassScorer(fewer).class_error(examples).mean(1, dtype=np.float64) / norms)
        after.append(ClassScorer([enroll(pool, head)]).class_error(examples)[:, 0] / norms)
    weights = (owners != larger[:, None]) / counts[owners]  # each of the other classes counts equally
    weights /= weights.sum(1, keepdims=True).clip(TINY)
    usual, errors = USUAL * float(np.mean(own)), np.array(after)
    drops, excess, least_excess = (
        (values * weights).sum(1) for values in (before - errors, np.maximum(errors - usual, 0), LEAST * errors)
    )
    expected = growth[larger] * np.maximum(excess, least_excess)  # with a slope of 1
    slope = max(0.0, float(drops @ expected / np.square(expected).sum().clip(TINY)))
    return [Allowance(slope * more, usual) for more in growth.tolist()]


def as_smallest(
    pool: NDArray[np.floating], place: int, least: int, head: HeadParameters, part: NDArray[np.floating] | None = None
) -> tuple[float, float]:
    """Return what a support at this place of a class (k, r, d) has from only `least` of the others: error and distance.

    With `part`, they are those of a part (r', d) of the photo. The distance between mean locations is squared. The
    others are the ones half-way round the class, because neighbours are often alike.
    """
    order = by_content(pool)
    steps = 1 + ((len(pool) - 2) // 2 + np.arange(least)) % (len(pool) - 1)
    others = order[(np.flatnonzero(order == place) + steps) % len(pool)]
    fewer, photo = enroll(pool[others], head), (pool[place] if part is None else part)[None]
    offset = photo.mean((0, 1), dtype=np.float64) - fewer.centre
    return float(ClassScorer([fewer]).class_error(photo)[0, 0]), float(offset @ offset)


def slope(more: Sequence[Allowance], counts: Sequence[int]) -> float:
    """Return the share per unit of log k, from the allowances of classes with `counts` photos."""
    shares = (one.share / float(np.log(k / min(counts))) for one, k in zip(more, counts, strict=True) if one.share)
    return max(shares, default=0.0)


def without_one(allowance: Allowance, count: int, least: int) -> Allowance:
    """Return the allowance of a class of `count` photos without one of them; `least` is that of the smallest class."""
    if not allowance.share:
        return allowance
    less = float(np.log(max(count - 1, least) / least) / np.log(count / least))
    return Allowance(allowance.share * less, allowance.usual)
