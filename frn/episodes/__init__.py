"""Episodes: their shape and the images that they use, in plain numpy; the same seed gives the same ones everywhere.

The functions are stateless: an epoch depends on (seed, epoch), an evaluation episode on (seed, shape, index). A killed
run can therefore resume, and ranks or workers share a stream without communication.

An episode is an integer array (way, shot + queries) of image indices: the supports of each class, then its queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError

Episode = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeShape:
    """n-way, k-shot: `way` classes of `shot` support images, and `queries` query images per class."""

    way: int
    shot: int
    queries: int

    def __post_init__(self) -> None:
        for name, least in (("way", 2), ("shot", 1), ("queries", 1)):
            if getattr(self, name) < least:
                raise FrnError(f"an episode needs {name} >= {least}, not {getattr(self, name)}")

    @property
    def per_class(self) -> int:
        """Number of images that an episode takes from each of its classes."""
        return self.shot + self.queries

    def __str__(self) -> str:
        return f"{self.way}-way {self.shot}-shot"


def check_classes(
    names: Sequence[str], sizes: Sequence[int], shape: EpisodeShape, *, where: str, every_class: bool
) -> None:
    """Reject a data set that is too small for `shape`; the message calls it `where`.

    Evaluation draws from every class, so each must be large enough. Training skips small classes if at least `way`
    others are large enough. Raises FrnError if the data set is too small; the message gives the smallest class, its
    count and the required count.
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


def group_by_class(labels: NDArray[Any]) -> tuple[list[str], NDArray[np.intp]]:
    """Return class names, and the class of each image (n,), in the order in which the classes first appear in (n,).

    The order does not depend on the type of the labels, so names and numbers of the same classes give equal episodes.
    """
    names, first, of_each = np.unique(labels, return_index=True, return_inverse=True)
    order = first.argsort()
    return [str(names[i]) for i in order], order.argsort()[of_each]


def training_epoch(sizes: Sequence[int], shape: EpisodeShape, *, seed: int, epoch: int, turn: int = 0) -> list[Episode]:
    """Draw one epoch as the authors' sampler does: images without replacement, classes by their remaining images.

    Classes are drawn with probability proportional to their remaining images. A class with too few left is not drawn
    again, and the epoch ends when fewer than `way` classes are left. Unused images are left for the next epoch. An
    epoch of several passes over the images draws each pass separately, with passes counted from 0. `check_classes` says
    whether there is any episode.
    """
    generator = np.random.default_rng([seed, epoch, turn] if turn else [seed, epoch])
    starts = np.cumsum([0, *sizes[:-1]])
    shuffled = [start + generator.permutation(size) for start, size in zip(starts, sizes, strict=True)]
    remaining = np.asarray(sizes, dtype=np.int64).copy()
    remaining[remaining < shape.per_class] = 0
    episodes = []
    while np.count_nonzero(remaining) >= shape.way:
        sampled = generator.choice(len(remaining), size=shape.way, replace=False, p=remaining / remaining.sum())
        episode = np.empty((shape.way, shape.per_class), dtype=np.int64)
        for row, label in enumerate(sampled):
            taken = sizes[label] - remaining[label]
            episode[row] = shuffled[label][taken : taken + shape.per_class]
            remaining[label] -= shape.per_class
            if remaining[label] < shape.per_class:
                remaining[label] = 0
        episodes.append(episode)
    return episodes


Balance = float | tuple[float, ...]
"""Share of each data set in an epoch: proportional to a power of its size, or given as a list of weights."""


def balanced_shares(lengths: Sequence[int], balance: Balance) -> list[int]:
    """Return each data set's part of an epoch; the total is unchanged.

    Raises FrnError if the number of weights differs from the number of sets.
    """
    if isinstance(balance, tuple) and len(balance) != len(lengths):
        raise FrnError(f"{len(balance)} weights for {len(lengths)} data sets. Pass every data set with --data.")
    weights = np.array(balance) if isinstance(balance, tuple) else np.asarray(lengths, dtype=np.float64) ** balance
    return [max(1, round(share)) for share in sum(lengths) * weights / weights.sum()]


def concat_epoch(
    sets: Sequence[Sequence[int]], shape: EpisodeShape, *, seed: int, epoch: int, balance: Balance = 1.0
) -> list[Episode]:
    """Draw one epoch of several data sets: `training_epoch` of each, shuffled, so that no episode mixes them.

    Images of different sets differ in style, and a mixed episode would teach that difference. `balance` determines a
    set's part of the episodes: at 1, each image is used about once.
    """
    starts = np.cumsum([0, *map(sum, sets)])
    sampled = [training_epoch(sizes, shape, seed=seed, epoch=epoch) for sizes in sets]
    for sizes, part, share in zip(
        sets, sampled, balanced_shares([len(part) for part in sampled], balance), strict=True
    ):
        for turn in range(1, -(-share // len(part))):
            part.extend(training_epoch(sizes, shape, seed=seed, epoch=epoch, turn=turn))
        del part[share:]
    episodes = [start + episode for start, part in zip(starts, sampled, strict=False) for episode in part]
    if len(sets) == 1:
        return episodes
    return [episodes[i] for i in np.random.default_rng([seed, epoch, len(sets)]).permutation(len(episodes))]


def evaluation_episode(sizes: Sequence[int], shape: EpisodeShape, *, seed: int, index: int) -> Episode:
    """Draw evaluation episode number `index`: classes and images uniformly, without replacement.

    Each episode has its own generator, so any part of an evaluation can be drawn anywhere.
    """
    generator = np.random.default_rng([seed, shape.way, shape.shot, shape.queries, index])
    starts = np.cumsum([0, *sizes[:-1]])
    sampled = generator.permutation(len(sizes))[: shape.way]
    rows = [starts[c] + generator.choice(sizes[c], size=shape.per_class, replace=False) for c in sampled]
    return np.stack(rows).astype(np.int64)
