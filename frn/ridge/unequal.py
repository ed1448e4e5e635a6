"""Classes with different numbers of photos.

Each further photo of a class adds directions to its pool, so the class reconstructs every photo better, also those of
other classes: it takes photos from smaller classes. How much is measured on the examples of the other classes: the
error of a class with as few photos as the smallest class has, less its error with all photos. These drops grow with the
logarithm of the number of photos, k. A slope that is fitted to the drops of all classes is more accurate than the drop
of each class, which is noisy with few examples:

    allowance_c = max(SHARE slope, slope - PROPORTION) log(k_c / k_min)

Allowances are shares of a photo's energy; a class's error is Eq. 4 plus its allowance times the energy. They are zero
if all classes have the same number of photos.

Wherever some photos stand for all, they are taken in an order that depends on nothing but their maps (`by_content`), so
that the order of files decides no answer.

Shape letters: way classes, k supports of a class, r locations, d channels, n examples.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from frn.ridge.enrolment import ClassScorer, EnrolledClass, energy, enroll
from frn.ridge.parameters import HeadParameters

SHARE, PROPORTION = 0.5, 0.01
"""Fraction of the fitted slope, and what is left out of a steep one. With all of it, small classes gain most, but
photos that come in the proportions of the classes lose up to a point: in these, a class with more photos is more
likely, by log k / gamma in its error, half of which is about this (`assets/benchmarks/unequal.py`)."""
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


def allowances(pools: Sequence[NDArray[np.floating]], head: HeadParameters) -> list[float]:
    """Return the allowance of each class, from feature maps of all supports, (k, r, d) each."""
    counts = np.array([len(pool) for pool in pools])
    least = counts.min(initial=np.iinfo(np.intp).max)
    growth = np.log(counts / least)
    if not growth.any():
        return [0.0] * len(pools)
    larger = np.flatnonzero(growth)
    larger = larger[np.argsort(counts[larger], kind="stable")][:: -(-len(larger) // MAX_CLASSES)]
    orders = [by_content(pool) for pool in pools]
    owners = np.repeat(np.arange(len(pools)), counts)
    chosen = np.arange(0, len(owners), -(-len(owners) // MAX_EXAMPLES))
    places = np.concatenate(orders)[chosen].tolist()
    examples = np.stack([pools[label][place] for label, place in zip(owners[chosen].tolist(), places, strict=True)])
    owners, norms = owners[chosen], energy(examples).clip(np.finfo(np.float32).tiny)
    weights = 1 / counts[owners]  # each class counts equally
    drops = []
    for label in larger.tolist():
        pool = pools[label][orders[label]]
        count = min(len(pool), max(3, SELECTED // least))
        firsts = np.arange(count) * len(pool) // count
        fewer = [enroll(pool[(first + np.arange(least)) % len(pool)], head) for first in firsts]
        before = ClassScorer(fewer).class_error(examples).mean(1, dtype=np.float64)
        after = ClassScorer([enroll(pool, head)]).class_error(examples)[:, 0]
        others = owners != label
        drops.append(np.average(((before - after) / norms)[others], weights=weights[others]) if others.any() else 0.0)
    slope = max(0.0, float(growth[larger] @ drops / np.square(growth[larger]).sum()))
    return (max(SHARE * slope, slope - PROPORTION) * growth).tolist()


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


def slope(more: Sequence[float], counts: Sequence[int]) -> float:
    """Return the allowance per unit of log k, from those of classes with `counts` photos."""
    return max((a / float(np.log(k / min(counts))) for a, k in zip(more, counts, strict=True) if a), default=0.0)


def without_one(allowance: float, count: int, least: int) -> float:
    """Return the allowance of a class of `count` photos without one of them; `least` is that of the smallest class."""
    return allowance * float(np.log(max(count - 1, least) / least) / np.log(count / least)) if allowance else 0.0
