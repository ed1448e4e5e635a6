"""Lambda, rho and gamma of a head that nobody trained, from episodes of the validation split.

`frn classify` chooses them by leaving out supports, which takes two of a class and a second per set of classes.
Ten thousand episodes ask for something quicker that one shot allows too: the same search over the queries of a few
episodes of other classes, once for each shape. No test label is used.
"""

import numpy as np
from torch import Tensor

from frn.episodes import EpisodeShape, evaluation_episode
from frn.inference.enrolment import HeadParameters
from frn.inference.regularisers import Maps, Trial, choose

EPISODES = 10


def tune_head(maps: Tensor, sizes: tuple[int, ...], shape: EpisodeShape, *, seed: int) -> HeadParameters:
    """Choose the parameters for episodes of a shape.

    Args:
        maps: feature maps of the validation images, class by class, (n, r, d).
        sizes: images of each class, each at least shot + queries.
        shape: of the episodes.
        seed: the same seed draws the same episodes.
    """
    found = maps.cpu().numpy()
    trials = []
    for index in range(EPISODES):
        drawn = evaluation_episode(sizes, shape, seed=seed, index=index)
        trials.append(as_trial(found[drawn], shape.shot))
    return choose(trials)


def as_trial(episode: Maps, shot: int) -> Trial:
    """An episode's maps (way, shot + queries, r, d), its queries claimed by its supports."""
    return Trial(list(episode[:, :shot]), list(enumerate(episode[:, shot:])))


def set_head(head: object, chosen: HeadParameters) -> None:
    """Give an `FRNHead` its numbers."""
    for name in ("alpha", "beta", "gamma"):
        getattr(head, name).data.fill_(np.float64(getattr(chosen, name)).item())
