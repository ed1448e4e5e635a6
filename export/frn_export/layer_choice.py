"""Choose the feature map of a pretrained backbone by leave-one-out on classes of photos.

Every candidate is one of the last layers, with one map of its channels: none; the principal half, which drops the
directions with the least energy; or whitening, (M + mean variance I)^(-1/2) with the second moments M of the locations.
Tokens of a transformer share a few strong directions that depend little on the photo, and whitening evens them out. The
likelihood of the correct classes decides (Eq. 9): it still differs if two candidates are right for the same photos.

Shape letters: k photos of a class, r locations, d channels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from frn.errors import FrnError
from frn.features.feature_cache import Maps
from frn.images.opening import open_image
from frn.models.model import Model
from frn.ridge.enrolment import ClassScorer, Floats, leave_one_out, pool_rows
from frn.ridge.parameters import probabilities
from frn.ridge.tuning import UNTRAINED, tune_by_leave_one_out
from frn.ridge.unequal import enroll_all

LAYERS = 4  # number of layers to try, counted from the end


@dataclass(frozen=True, slots=True)
class Candidate:
    """A layer with a map of its channels, and how well it classifies the photos by leave-one-out."""

    layer: int
    channels: str
    right: int
    photos: int
    likelihood: float  # mean log-likelihood of the correct classes

    def __str__(self) -> str:
        return f"layer {self.layer}, {self.channels}: {self.right} of {self.photos} photos right by leave-one-out"


def choose_layer(
    build: Callable[[int], Model], classes: Mapping[str, Sequence[Path]], progress: Callable[[str], None]
) -> tuple[Model, list[Candidate]]:
    """Return the best model, and all candidates, the best first.

    Args:
        build: returns the model with the map of a layer, counted from the end; raises FrnError if there is none.
        classes: photos of each class.
        progress: called with a line for each candidate.

    Raises FrnError if a photo cannot be read, or fewer than two classes have two photos.
    """
    if (large := sum(len(paths) > 1 for paths in classes.values())) < 2:
        raise FrnError(f"--layer auto needs two classes of two photos or more, and {large} of {len(classes)} have them")
    best: tuple[Candidate, Model, Floats | None] | None = None
    candidates = []
    for layer in range(1, LAYERS + 1):
        try:
            model = build(layer)
        except FrnError:  # the network has fewer layers
            if layer == 1:
                raise
            break
        pools = pools_of(model, classes)
        for name, channels in channel_maps(pools):
            mapped = pools if channels is None else [pool @ channels for pool in pools]
            candidate = Candidate(layer, name, *_judge(mapped))
            progress(str(candidate))
            candidates.append(candidate)
            if best is None or candidate.likelihood > best[0].likelihood:
                best = candidate, model, channels
    assert best is not None  # the first layer gives three
    if best[2] is not None:
        best[1].adapt(best[2])
    return best[1], sorted(candidates, key=lambda candidate: -candidate.likelihood)


@torch.inference_mode()
def pools_of(model: Model, classes: Mapping[str, Sequence[Path]]) -> list[Maps]:
    """Return the maps (k, r, d) of each class."""

    def maps(path: Path) -> Maps:
        pixels = torch.from_numpy(np.array(model.config.transform(open_image(path)))).permute(2, 0, 1)
        feature_map: Maps = model.feature_maps(pixels[None].float() / 255)[0].numpy()
        return feature_map

    return [np.stack([maps(path) for path in paths]) for paths in classes.values()]


def channel_maps(pools: Sequence[Maps]) -> Iterator[tuple[str, Floats | None]]:
    """Yield maps of the channels (d, d) with their names; they keep the mean energy, on which lambda's size depends."""
    moments = sum(rows.T @ rows for rows in (pool_rows(pool).astype(np.float64) for pool in pools))
    energies, directions = np.linalg.eigh(moments)
    half = np.arange(len(energies)) >= len(energies) // 2
    yield "plain", None
    for name, gains in (("principal half", half), ("whitened", (energies + energies.mean()) ** -0.5)):
        scale = np.sqrt(energies.sum() / (energies @ np.square(gains)))
        yield name, ((directions * gains * scale) @ directions.T).astype(np.float32)


def _judge(pools: Sequence[Maps]) -> tuple[int, int, float]:
    """Return how many photos are right by leave-one-out, of how many, and the mean log-likelihood of their classes."""
    head = tune_by_leave_one_out(pools, UNTRAINED)
    several = [label for label, pool in enumerate(pools) if len(pool) > 1]
    labels = np.repeat(several, [len(pools[label]) for label in several])
    errors = ClassScorer(enroll_all(pools, head)).class_error(np.concatenate([pools[label] for label in several]))
    places = np.arange(len(labels)), labels
    errors[places] = np.concatenate([leave_one_out(pools[label], head) for label in several])
    shares = probabilities(errors, head.gamma)[places].clip(np.finfo(float).tiny)
    return int((errors.argmin(1) == labels).sum()), len(labels), float(np.log(shares).mean())
