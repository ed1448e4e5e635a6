"""What the examples of a class are worth: how much of its other examples, and of other classes, each explains.

With the second moment C of photos' locations, scaled to an energy of 1, sum_r w_rj (s_j . q_r) of the explanation is
m_j . (C s_j), where the rows m_j of rho (S S^T + lam I)^-1 S are the same for all photos. So one product per class is
enough for all photos of other classes. An example is compared with the others of its class, without the photo itself.

Shape letters: k examples of a class, r locations, d channels, p pool rows.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from frn.features.feature_cache import Maps
from frn.images.boxes import split_box
from frn.inference.classifier import Classifier
from frn.inference.explanation import weights_of
from frn.inference.find.windows import margins
from frn.inference.unknown.rule import TINY
from frn.projects.session import ClassEntry, Support
from frn.ridge.enrolment import Array
from frn.ridge.parameters import HeadParameters

MAX_CLASSES, MAX_PHOTOS = 25, 12  # how many of the worst explained classes, and photos of each, are looked at
MOST = 3  # number of actions to suggest
CARRIES = 0.5  # share of what a class explains of itself, from which it needs more photos like the one that explains it
BACKGROUND = 0.2
"""Margin of a class at the edge of a photo, as a share of the energy there, from which it knows the background.

Three quarters of a class's examples exceed it in 1 of 256 classes of birds, dogs, butterflies and mini-ImageNet (8
classes of 5 or 8 photos), and in all of 4 classes of birds pasted into photos of one place at a quarter of its side."""
ACCURATE = 0.75  # fraction of right answers by leave-one-out below which a class needs more photos


MORE, NOTICEABLE, ENOUGH = 4, 0.03, 20
"""Photos to add to a small class, and the loss of accuracy, and number of examples to measure it on, from which it is
reported."""
DOUBT = 0.03  # how much more of the found part a class rebuilds, beyond the box's margin, to doubt a box


class Worth(NamedTuple):
    """How much of photos each example of a class explains, as shares of their energy, (k,)."""

    own: Array  # of the other examples of its class; NaN for a single example
    others: Array  # of examples of other classes; NaN for a single class


def worth(pools: Sequence[NDArray[np.floating]], head: HeadParameters) -> list[Worth]:
    """Return what the examples of each class are worth, from their feature maps (k, r, d)."""
    moments = [
        np.mean([_moment(maps) for maps in pool[:: math.ceil(len(pool) / MAX_PHOTOS)]], axis=0) for pool in pools
    ]
    total, results = np.sum(moments, axis=0), list[Worth]()
    for pool, moment in zip(pools, moments, strict=True):
        k = len(pool)
        shares = np.full((k, k), np.nan)
        for left_out in range(0, k if k > 1 else 0, math.ceil(k / MAX_PHOTOS)):
            rest = np.arange(k) != left_out
            shares[left_out, rest] = _explained(pool[rest], _moment(pool[left_out]), head)
        others = (total - moment) / (len(pools) - 1) if len(pools) > 1 else np.full_like(total, np.nan)
        seen = ~np.isnan(shares)
        mean = np.divide(np.nansum(shares, 0), seen.sum(0), out=np.full(k, np.nan), where=seen.any(0))
        results.append(Worth(mean, _explained(pool, others, head)))
    return results


def advise(classifier: Classifier, find: Callable[[str], Maps] | None = None) -> list[str]:
    """Return the most useful changes of the examples, at most `MOST`, each in a line.

    An example that looks like another class, and explains more of other classes than of its own, is probably a
    mistake. `find` returns the map of an example by its content key. Heads other than FRN's have no advice.
    """
    if classifier.other is not None or not classifier.classes:
        return []
    find = find or classifier.example_maps().__getitem__
    shares = classifier.leave_one_out
    small = advise_small(classifier)
    entries = sorted(classifier.state.classes, key=lambda entry: float(np.mean(shares.get(entry.name, 0.0))))
    entries = entries[:MAX_CLASSES]
    values = worth([np.stack([find(photo.key) for photo in entry.supports]) for entry in entries], classifier.head)
    rivals, right = _leave_one_out(classifier)
    mistakes, unboxed, few, carried = (list[tuple[float, str]]() for _ in range(4))
    for entry, (of_own, others) in zip(entries, values, strict=True):
        name, k = entry.name, len(entry.supports)
        suspects = 0
        for photo, mine, theirs in zip(entry.supports, of_own.tolist(), others.tolist(), strict=True):
            if photo.key in rivals and theirs > mine:
                suspects += 1
                (rival, lead), shown = rivals[photo.key], "/".join(photo.path.parts[-2:])
                text = f"remove {shown} from {name}: it looks like {rival}, and explains {theirs:.1%} of other "
                mistakes.append((-lead * theirs / max(mine, TINY), f"{text}classes but {mine:.1%} of its own"))
        if k > 2 and of_own.max() > CARRIES * of_own.sum():
            shown, share = "/".join(entry.supports[int(of_own.argmax())].path.parts[-2:]), of_own.max() / of_own.sum()
            text = f"add photos like {shown} to {name}: it alone gives {share:.0%} of what this class explains"
            carried.append((-share, text))
        if k > 1 and (recognised := right[name] + suspects) < ACCURATE * k:
            look = "looks" if k - recognised == 1 else "look"
            text = f"add photos to {name}: {k - recognised} of its {k} photos {look} like another class"
            few.append((recognised / k, text))
        if k > 2 and 4 * (shared := _sharing_background(classifier, entry, find)) >= 3 * k:
            text = f"box the subject in the photos of {name}: {shared} of {k} share a background, which then decides"
            unboxed.append((-shared / k, text))
        if k == 1 and not small:
            few.append((0.5, f"add photos to {name}: it has a single one"))
    ordered = [text for texts in (mistakes, unboxed, few, carried) for _, text in sorted(texts)[: MOST - 1]]
    if names := ["/".join(photo.path.parts[-2:]) for photo in doubtful_boxes(classifier, find)]:
        shown = ", ".join([*names[:MAX_PHOTOS], *[f"and {len(names) - MAX_PHOTOS} more"] * (len(names) > MAX_PHOTOS)])
        ordered.insert(0, f"check the box {shown}: another part of the photo looks more like its class")
    return [*ordered[: MOST - len(small)], *small]


def doubtful_boxes(classifier: Classifier, find: Callable[[str], Maps]) -> list[Support]:
    """Return the examples whose box probably shows something else, most doubtful first.

    By leave-one-out, their class then rebuilds the subject that is found in the photo better than the box, by more than
    the box's margin. Of five boxes per class, one of them elsewhere in its photo, it names 78% (nine kinds) and all
    (four boards) of the wrong ones, and 1% and 2% of the others. `DOUBT` was chosen on these; of birds, dogs and
    butterflies that are pasted into places (test classes, two draws each), it names all wrong boxes and no other one.
    """
    left_out = classifier.left_out
    places = [place for place, photo in enumerate(classifier.left_out_photos) if split_box(photo.path)[1] is not None]
    if classifier.state.search == "none" or left_out is None or not places:
        return []
    photos = [classifier.left_out_photos[place] for place in places]
    maps, rows = np.stack([find(photo.key) for photo in photos]), (places, left_out.labels[places])
    errors = classifier.scorer.class_errors(maps, [photo.key for photo in photos])
    values, _ = margins(errors, classifier.scorer.energy(maps), rows[1])
    gains = errors[np.arange(len(photos)), rows[1]] - left_out.errors[rows] - values
    return [photos[place] for place in np.argsort(-gains).tolist() if gains[place] > DOUBT]


def advise_small(classifier: Classifier) -> list[str]:
    """Return what the smallest classes lose, and gain with more photos, in a line if it is noticeable."""
    cost, least = costs(classifier), min(len(entry.supports) for entry in classifier.state.classes)
    if (loss := cost(least) - cost(math.inf)) < NOTICEABLE:
        return []
    first, *others = [entry.name for entry in classifier.state.classes if len(entry.supports) == least]
    names = f"{first} and {len(others)} other{'s' * (len(others) > 1)}" if others else first
    photos = "a single photo costs" if least == 1 else f"{least} photos cost"
    gain = f"{MORE} more{' each' * bool(others)} gain about {100 * (cost(least) - cost(least + MORE)):.0f}"
    return [f"add photos to {names}: {photos} about {100 * loss:.0f} points of accuracy there; {gain}"]


def costs(classifier: Classifier) -> Callable[[float], float]:
    """Return a function of a class's number of photos: the fraction of its photos that other classes win.

    It is measured by leave-one-out on examples of classes that are larger than the smallest: with all photos of their
    class, and with as few as the smallest has. Between the two, and beyond, it follows a power of the number, but it
    never falls below that with all photos. It is 0 with too few examples, or less than two more mistakes.
    """
    assert classifier.left_out is not None  # there are classes
    errors, labels, *_, smaller = classifier.left_out
    chosen = smaller[:, 0] >= 0
    counts = np.array([len(entry.supports) for entry in classifier.state.classes])
    rivals = errors[chosen]
    rows = np.arange(len(rivals)), labels[chosen]
    now, rivals[rows] = rivals[rows], np.inf
    few, many = ((each > rivals.min(1)).sum() for each in (smaller[chosen, 0], now))
    if few - many < 2 or len(rivals) < ENOUGH:  # may be chance
        return lambda count: 0.0
    few, many = ((each + 0.5) / (len(rivals) + 1) for each in (few, many))  # so that neither is 0
    growth = np.log(counts[labels[chosen]] / counts.min()).mean()
    power = math.log(few / many) / growth
    return lambda count: float(max(many, few * (count / counts.min()) ** -power))


def _sharing_background(classifier: Classifier, entry: ClassEntry, find: Callable[[str], Maps]) -> int:
    """Return how many examples of a class show a background that it knows from its other examples, and others do not.

    A subject rarely fills the outermost cells. What a class alone explains there, it has seen in the same place. With
    fewer than five classes, that may also be a subject that no other class resembles: 0.
    """
    extractor, place = classifier.extractor, classifier.names.index(entry.name)
    if min(extractor.grid) < 3 or len(classifier.names) < 5:
        return 0
    edge = np.ones(extractor.grid, dtype=bool)
    edge[1:-1, 1:-1] = False
    photos = entry.supports[:: math.ceil(len(entry.supports) / MAX_PHOTOS)]
    count = 0
    for photo in photos:
        maps = find(photo.key)
        errors = classifier.error_maps(maps, photo.key)
        means = errors.mean((1, 2))
        means[place] = np.inf
        energy = extractor.on_grid(np.square(maps.astype(np.float64)).sum(1)[None])[0].clip(TINY)
        margin = (errors[means.argmin()] - errors[place]) / energy
        outside, inside = float(margin[edge].mean()), float(margin[~edge].mean())
        count += outside > max(BACKGROUND, 0.7 * inside)  # subjects that fill the photo reach 0.4 to 0.7 of the inside
    return round(count * len(entry.supports) / len(photos))


def _leave_one_out(classifier: Classifier) -> tuple[dict[str, tuple[str, float]], Counter[str]]:
    """Return the class that explains an example best if it is not its own, and its lead; and right answers by class."""
    rivals, right, names = dict[str, tuple[str, float]](), Counter[str](), classifier.names
    assert classifier.left_out is not None  # there are classes
    errors, labels, *_ = classifier.left_out
    for photo, row, label in zip(classifier.left_out_photos, errors, labels.tolist(), strict=True):
        best = int(row.argmin())
        right[names[label]] += best == label
        if best != label:
            rivals[photo.key] = names[best], float(1 - row[best] / row[label])
    return rivals, right


def _moment(maps: NDArray[np.floating]) -> Array:
    """Return the second moment (d, d) of a photo's locations (r, d), scaled to an energy of 1."""
    rows = maps.astype(np.float64)
    return rows.T @ rows / max(float(np.square(rows).sum()), np.finfo(np.float64).tiny)


def _explained(pool: NDArray[np.floating], moment: Array, head: HeadParameters) -> Array:
    """Return how much of photos with this moment is rebuilt from each example (k, r, d), (k,)."""
    rows = pool.reshape(-1, pool.shape[-1]).astype(np.float64)
    return np.vecdot(rows @ moment, weights_of(rows, head)).reshape(len(pool), -1).sum(1)
