"""Episodes: their shape, and which images they are made of. Free of torch."""

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
