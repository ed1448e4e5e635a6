"""Common settings of the paper's runs: 84 pixels, 15 queries, validation at the shot of training over 1,000 episodes.

Taken from the authors' training scripts; what only the supplement tells is marked SM. Where the two differ, see
`docs/background/paper-and-code.md`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from frn.data.augmentation import Augmentation
from frn.episodes import EpisodeShape
from frn.images.transforms import EvaluationTransform
from frn.training.presets.preset import WITH_AUXILIARY_LOSS, Preset, Published, Regulariser

METHODS = {"frn": "FRN", "proto": "ProtoNet", "dsn": "DSN", "ctx": "CTX", "covariance": "covariance pooling"}

RESIZED_CROP = Augmentation(size=84, crop="resized")
PADDED_CROP = Augmentation(size=84, crop="padded", padding=8)

RESIZED = EvaluationTransform(size=84, resize=92)
"""Shorter side to 92, centre 84 x 84."""
SQUEEZED = EvaluationTransform(size=84, resize=92, square=True)
"""Both sides to 92, centre 84 x 84: for images cropped to a bounding box."""
AS_IS = EvaluationTransform(size=84)
"""For images that are 84 x 84 already."""

PHOTO_SIDE = 256
"""Training photos are kept with a shorter side of at most this; the authors crop from the file's own pixels."""

Figure = float | tuple[float, float]
"""Accuracy, with the half-width of its 95% interval where the table prints one."""
Figures = Mapping[int, Figure]
"""By test shot."""


def published(table: int, figures: Figures) -> Published:
    """The figures of a table."""
    pairs = {shot: figure for shot, figure in figures.items() if isinstance(figure, tuple)}
    return Published(
        table=table,
        accuracy={shot: figure[0] if isinstance(figure, tuple) else figure for shot, figure in figures.items()},
        ci95={shot: figure[1] for shot, figure in pairs.items()},
    )


def episode(way: int, shot: int) -> EpisodeShape:
    """A training episode."""
    return EpisodeShape(way=way, shot=shot, queries=15)


def trained_at(shot: int, preset: Preset, way: int, figures: Published | None = None) -> Preset:
    """The same run with episodes of another shot, tested at that shot alone."""
    return replace(
        preset,
        about=f"{preset.about}, trained at {shot} shot",
        episode=episode(way, shot),
        test_shots=(shot,),
        published=figures,
    )


def by_method(preset: Preset, method: str) -> Preset:
    """The same run with a baseline in place of FRN: the paper tunes none of them on its own (SM, Hyperparameters)."""
    aux: Literal["reference", "off"] = "reference" if method in WITH_AUXILIARY_LOSS else "off"
    return replace(preset, about=preset.about.replace("FRN", METHODS[method]), method=method, aux=aux)


def without(preset: Preset, *, aux: bool = True, fixed: tuple[Regulariser, ...] = ()) -> Preset:
    """An ablation (SM, Table 12): no auxiliary loss, or regularisers that are not learned."""
    parts = [] if aux else ["no auxiliary loss"]
    if fixed:
        parts.append(f"fixed {' and '.join(fixed)}")
    return replace(preset, about=f"{preset.about}, {', '.join(parts)}", aux="reference" if aux else "off", fixed=fixed)
