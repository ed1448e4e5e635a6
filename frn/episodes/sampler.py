"""Which images an episode is made of. Plain numpy; the same seed gives the same episodes on every machine.

Nothing here keeps a state: an epoch is a function of (seed, epoch), an evaluation episode of (seed, shape, index).
A killed run finds its place again, and ranks or workers share a stream without talking.

An episode is an integer array (way, shot + queries) of image indices: the supports of each class, then its queries.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frn.episodes.shape import EpisodeShape
from frn.errors import FrnError

Episode = NDArray[np.int64]


def check_classes(
    names: Sequence[str], sizes: Sequence[int], shape: EpisodeShape, *, where: str, every_class: bool
) -> None:
    """Refuse a data set that cannot serve `shape`; `where` is what the message calls it.

    Evaluation draws from every class, so each must be large enough; training leaves small ones out as long as `way`
    others can serve.

    Raises:
        FrnError: naming the smallest class, its count and what is needed.
    """
    small = [i for i, size in enumerate(sizes) if size < shape.per_class]
    enough = len(sizes) - len(small) >= shape.way
    if enough and not (every_class and small):
        return
    if len(sizes) < shape.way:
        mend = "Lower --way" if len(sizes) > 1 else "Add classes"
        raise FrnError(f"{where} has {len(sizes)} classes, but {shape} episodes need {shape.way}. {mend}.")
    worst = min(small, key=lambda i: sizes[i])
    others = f" (and {len(small) - 1} more classes are too small)" if len(small) > 1 else ""
    raise FrnError(
        f"{where}: class {names[worst]!r} has {sizes[worst]} images, but a {shape.shot}-shot episode with "
        f"{shape.queries} queries needs {shape.per_class}{others}. Lower --shot or --queries, or remove the class."
    )


def training_epoch(sizes: Sequence[int], shape: EpisodeShape, *, seed: int, epoch: int, turn: int = 0) -> list[Episode]:
    """One epoch of the authors' sampler: images without replacement, classes by what they have left.

    Classes are drawn with probability proportional to their remaining images; one that can no longer serve leaves,
    and the epoch ends when fewer than `way` are left. The remainder is discarded until the next epoch. An epoch that
    passes over the images more than once has as many turns, counted from 0.

    Raises:
        FrnError: if fewer than `way` classes have enough images for a single episode.
    """
    generator = np.random.default_rng([seed, epoch, turn] if turn else [seed, epoch])
    starts = np.cumsum([0, *sizes[:-1]])
    shuffled = [start + generator.permutation(size) for start, size in zip(starts, sizes, strict=True)]
    left = np.asarray(sizes, dtype=np.int64).copy()
    left[left < shape.per_class] = 0
    if np.count_nonzero(left) < shape.way:
        raise FrnError(
            f"only {np.count_nonzero(left)} classes have the {shape.per_class} images that a {shape} episode with "
            f"{shape.queries} queries takes, but it needs {shape.way}. Lower --way, --shot or --queries."
        )
    episodes = []
    while np.count_nonzero(left) >= shape.way:
        sampled = generator.choice(len(left), size=shape.way, replace=False, p=left / left.sum())
        episode = np.empty((shape.way, shape.per_class), dtype=np.int64)
        for row, label in enumerate(sampled):
            taken = sizes[label] - left[label]
            episode[row] = shuffled[label][taken : taken + shape.per_class]
            left[label] -= shape.per_class
            if left[label] < shape.per_class:
                left[label] = 0
        episodes.append(episode)
    return episodes


Balance = float | tuple[float, ...]
"""How data sets share an epoch: by a power of their size, or each by its own weight, in the order they are given."""


def balanced_shares(lengths: Sequence[int], balance: Balance) -> list[int]:
    """How much of an epoch each data set gets; together as much as before.

    FrnError if there are weights, but not one for each set.
    """
    if isinstance(balance, tuple) and len(balance) != len(lengths):
        raise FrnError(f"data sets have {len(balance)} weights, but there are {len(lengths)} of them. Give all --data.")
    weights = np.array(balance) if isinstance(balance, tuple) else np.asarray(lengths, dtype=np.float64) ** balance
    return [max(1, round(share)) for share in sum(lengths) * weights / weights.sum()]


def concat_epoch(
    sets: Sequence[Sequence[int]], shape: EpisodeShape, *, seed: int, epoch: int, balance: Balance = 1.0
) -> list[Episode]:
    """One epoch of several data sets: `training_epoch` of each, in shuffled order, so that no episode mixes them.

    Images of different sets are separated by their look alone, and an episode of both would teach that. A set's share
    of the episodes goes by `balance`: at 1 each image comes about once.

    Raises:
        FrnError: if a data set cannot serve a single episode.
    """
    starts = np.cumsum([0, *map(sum, sets)])
    sampled = [training_epoch(sizes, shape, seed=seed, epoch=epoch) for sizes in sets]
    for sizes, own, share in zip(sets, sampled, balanced_shares([len(own) for own in sampled], balance), strict=True):
        for turn in range(1, -(-share // len(own))):
            own.extend(training_epoch(sizes, shape, seed=seed, epoch=epoch, turn=turn))
        del own[share:]
    episodes = [start + episode for start, own in zip(starts, sampled, strict=False) for episode in own]
    if len(sets) == 1:
        return episodes
    return [episodes[i] for i in np.random.default_rng([seed, epoch, len(sets)]).permutation(len(episodes))]


def evaluation_episode(sizes: Sequence[int], shape: EpisodeShape, *, seed: int, index: int) -> Episode:
    """Episode number `index` of an evaluation: classes and images drawn uniformly, without replacement.

    Each episode has a generator of its own, so any part of an evaluation can be drawn anywhere.
    """
    generator = np.random.default_rng([seed, shape.way, shape.shot, shape.queries, index])
    starts = np.cumsum([0, *sizes[:-1]])
    sampled = generator.permutation(len(sizes))[: shape.way]
    rows = [starts[c] + generator.choice(sizes[c], size=shape.per_class, replace=False) for c in sampled]
    return np.stack(rows).astype(np.int64)
