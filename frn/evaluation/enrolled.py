"""Accuracy over random episodes whose classes are enrolled as `frn classify` does: alpha and gamma chosen for each."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frn.data.pixel_cache import Progress
from frn.episodes import EpisodeShape, evaluation_episode
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.tuning import Prior, tune_by_leave_one_out


def enrolled_accuracies(
    prior: Prior,
    feature_maps: NDArray[np.float32],
    sizes: Sequence[int],
    shape: EpisodeShape,
    *,
    episodes: range,
    seed: int,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Share of right answers in each episode, from the maps (n, r, d) of all images class by class."""
    shares = np.empty(len(episodes))
    for place, index in enumerate(episodes):
        drawn = evaluation_episode(sizes, shape, seed=seed, index=index)
        pools = list(feature_maps[drawn[:, : shape.shot]])
        head = tune_by_leave_one_out(pools, prior)
        scorer = ClassScorer([enroll(pool, head) for pool in pools])
        errors = scorer.class_error(feature_maps[drawn[:, shape.shot :].flatten()])
        shares[place] = (errors.argmin(1) == np.repeat(np.arange(shape.way), shape.queries)).mean()
        if progress:
            progress(place + 1, len(episodes))
    return shares
