"""Accuracy over random episodes enrolled as in `frn classify`: each episode chooses its own alpha and gamma."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frn.data.pixel_cache import Progress
from frn.episodes import EpisodeShape, evaluation_episode
from frn.ridge.enrolment import Array, ClassScorer, enroll
from frn.ridge.tuning import Prior, tune_by_leave_one_out
from frn.ridge.unlabelled.transductive import refine

CONCENTRATION = 2.0
"""Parameter of the Dirichlet distribution of class sizes (Veilleux et al., NeurIPS 2021)."""


def enrolled_accuracies(
    prior: Prior,
    feature_maps: NDArray[np.float32],
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: range,
    seed: int,
    transductive: bool = False,
    progress: Progress | None = None,
) -> Array:
    """Return the fraction of correct answers in each episode, (e, 1), from the maps (n, r, d) of all images by class.

    `transductive` adds three columns, (e, 4): with classes refined by the same queries; for as many queries with
    unequal class sizes; and for these again, with classes refined by them.
    """
    shares = np.empty((len(episodes), 4 if transductive else 1))
    for place, index in enumerate(episodes):
        drawn = evaluation_episode(sizes, shape, seed=seed, index=index)
        pools = list(feature_maps[drawn[:, : shape.shot]])
        head = tune_by_leave_one_out(pools, prior)
        scorer = ClassScorer([enroll(pool, head) for pool in pools])
        asked = [list(drawn[:, shape.shot :])]
        if transductive:
            asked.append(_unequal(drawn, sizes, shape, np.random.default_rng([seed, index])))
        for column, images in enumerate(asked):
            labels = np.repeat(np.arange(shape.way), [len(own) for own in images])
            queries = feature_maps[np.concatenate(images)]
            errors = scorer.class_error(queries).astype(np.float64)
            shares[place, 2 * column] = (errors.argmin(1) == labels).mean()
            if transductive:
                refined, _ = refine(errors, pools, queries, head)
                shares[place, 2 * column + 1] = (refined.argmin(1) == labels).mean()
        if progress:
            progress(place + 1, len(episodes))
    return shares


def _unequal(
    drawn: NDArray[np.int64], sizes: Sequence[int], shape: EpisodeShape, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Draw as many queries, with class shares from a Dirichlet distribution; fewer if there are not enough images."""
    counts = generator.multinomial(shape.way * shape.queries, generator.dirichlet(np.full(shape.way, CONCENTRATION)))
    ends = np.cumsum(sizes)
    owners = np.searchsorted(ends, drawn[:, 0], side="right")
    images = []
    for supports, owner, count in zip(drawn[:, : shape.shot], owners, counts, strict=True):
        left = np.setdiff1d(np.arange(ends[owner] - sizes[owner], ends[owner]), supports)
        images.append(generator.permutation(left)[:count])
    return images
