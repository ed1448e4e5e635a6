"""The settings of teaching, which can also be read from TOML files. The module does not import torch."""

from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.training.presets.preset import overlay, read_settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights of the losses in `lessons.matching`."""

    maps: float = 2.0
    pooled: float = 1.0
    classes: float = 0.25
    neighbours: float = 0.25
    own: float = 1.0
    episodes: float = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class TeachingRecipe:
    """All settings of teaching except data and seed."""

    backbone: str = "resnet9-patch6-wide"
    teacher: str = "timm:tf_efficientnet_lite0"
    teacher_size: int = 160
    """Side in pixels of the teacher's input and of stored photos."""
    own: str = "resnet9-photo"
    """A second teacher, which is a model of this project and is used on the first `own_sets` data sets."""
    own_sets: int = 3
    size: int = 120
    """Side of a training view in pixels."""
    evaluation_size: int = 144
    evaluation_resize: int = 156
    """Shorter side of a photo in pixels, before it is cropped to the centre for the model."""
    scale: tuple[float, float] = (0.45, 1.0)
    """Fraction of a photo's area that a view covers."""
    jitter: float = 0.3
    way: int = 16
    per_class: int = 4
    """Photos per class in an episode; every other episode has 2 supports per class instead of 1."""
    batch: int = 64
    """Number of photos in each step, in addition to those of the episode."""
    episode_shares: tuple[float, ...] = (0.24, 0.19, 0.24, 0.22, 0.11)
    """Probability that an episode is drawn from each labelled data set."""
    photo_shares: tuple[float, ...] = (0.04, 0.04, 0.04, 0.25, 0.04)
    """Fractions of the batch that come from each labelled data set; the remaining data sets share the rest by the
    square root of their size.
    """
    epochs: int = 32
    steps: int = 100
    """Steps per epoch."""
    learning_rate: float = 1e-3
    head_rate: float = 3.0
    """Learning rate of lambda, rho and gamma, relative to that of all other parameters."""
    warm_up: float = 0.03
    """Fraction of all steps in which the learning rate rises before a cosine decay."""
    weight_decay: float = 0.02
    averaging: float = 0.998
    """Fraction of the running mean that is kept in each step; the rest comes from the current weights."""
    kept: float = 0.4
    """Share of the initial weights in the final model; the rest is the running mean (Wortsman et al., WiSE-FT,
    2022).
    """
    weights: Weights = Weights()

    def __post_init__(self) -> None:
        if min(self.epochs, self.steps, self.batch) < 1 or self.way < 2 or self.per_class < 3:
            raise FrnError(f"teaching needs steps, photos, two classes and three photos of each: {self}")
        if (
            not self.learning_rate > 0
            or not 0 <= self.warm_up < 1
            or not 0 <= self.averaging < 1
            or not 0 <= self.kept < 1
        ):
            raise FrnError(f"teaching needs a positive rate, and shares below 1: {self}")
        if len(self.episode_shares) != len(self.photo_shares) or sum(self.photo_shares) > 1:
            raise FrnError(
                "episode_shares and photo_shares must list the same data sets, and the latter must be at most "
                f"1: {self}"
            )


def read_recipe(path: Path) -> TeachingRecipe:
    """Read a recipe from a TOML file. Raises FrnError for unknown settings."""
    return overlay(TeachingRecipe(), read_settings(path), str(path))
