"""Episodes: their shape, and the images that they use. This package does not need torch."""

from frn.episodes.sampler import (
    Balance,
    Episode,
    balanced_shares,
    check_classes,
    concat_epoch,
    evaluation_episode,
    training_epoch,
)
from frn.episodes.shape import EpisodeShape

__all__ = [
    "Balance",
    "Episode",
    "EpisodeShape",
    "balanced_shares",
    "check_classes",
    "concat_epoch",
    "evaluation_episode",
    "training_epoch",
]
