"""What decides a teaching, as a TOML file may say it. Free of torch."""

from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.training.presets.overlay import overlay, read_settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights of the losses, which `frn.training.teaching.objective` has."""

    maps: float = 2.0
    pooled: float = 1.0
    classes: float = 0.25
    neighbours: float = 0.25
    own: float = 1.0
    episodes: float = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class TeachingRecipe:
    """Everything that decides a teaching but its data and seed."""

    backbone: str = "resnet9-patch6-wide"
    teacher: str = "timm:tf_efficientnet_lite0"
    teacher_size: int = 160
    """Pixels that the teacher sees, and that photos are kept at."""
    own: str = "resnet9-photo"
    """The model that also teaches, on the first `own_sets` data sets."""
    own_sets: int = 3
    size: int = 120
    """Pixels of a training view."""
    evaluation_size: int = 144
    evaluation_resize: int = 156
    """Shorter side of a photo before its middle is cut out for the model."""
    scale: tuple[float, float] = (0.45, 1.0)
    """Share of a photo's area that a view covers."""
    jitter: float = 0.3
    way: int = 16
    per_class: int = 4
    """Photos of a class in an episode; of every second one 1, of the others 2 are supports."""
    batch: int = 64
    """Photos of a step beside its episode."""
    episode_shares: tuple[float, ...] = (0.24, 0.19, 0.24, 0.22, 0.11)
    """How often an episode is drawn from each of the labelled data sets."""
    photo_shares: tuple[float, ...] = (0.04, 0.04, 0.04, 0.25, 0.04)
    """Shares of the labelled data sets in the batch; the unlabelled ones have the rest, by the roots of their sizes."""
    epochs: int = 32
    steps: int = 100
    """Steps of an epoch."""
    learning_rate: float = 1e-3
    head_rate: float = 3.0
    """Rate of lambda, rho and gamma, as a multiple."""
    warm_up: float = 0.03
    """Share of all steps in which the rate rises; then it falls along a cosine."""
    weight_decay: float = 0.02
    averaging: float = 0.998
    """Share of the running mean of weights that a step keeps."""
    kept: float = 0.4
    """Share of the first weights in the result, the rest being the running mean (Wortsman et al., WiSE-FT, 2022)."""
    weights: Weights = Weights()

    def __post_init__(self) -> None:
        if min(self.epochs, self.steps, self.batch) < 1 or self.way < 2 or self.per_class < 3:
            raise FrnError(f"a teaching needs steps, photos, two classes and three photos of each: {self}")
        if (
            not self.learning_rate > 0
            or not 0 <= self.warm_up < 1
            or not 0 <= self.averaging < 1
            or not 0 <= self.kept < 1
        ):
            raise FrnError(f"a teaching needs a positive rate, and shares below 1: {self}")
        if len(self.episode_shares) != len(self.photo_shares) or sum(self.photo_shares) > 1:
            raise FrnError(f"episode_shares and photo_shares name the same data sets, the latter 1 at most: {self}")


def read_recipe(path: Path) -> TeachingRecipe:
    """A recipe from a TOML file. FrnError if it says what a recipe cannot."""
    return overlay(TeachingRecipe(), read_settings(path), str(path))
