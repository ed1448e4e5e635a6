"""The choice of a layer and a map of its channels by leave-one-out, on layers that blur or keep the colours."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.layer_choice import channel_maps, choose_layer, pools_of
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from tests.drawings import DRAWINGS
from tests.models import small_model

KEEPS, BLURS = np.eye(3, dtype=np.float32), np.ones((3, 3), np.float32)


class Layer:
    """A model whose channels are the mixed colours of each pixel."""

    def __init__(self, number: int, mixed: NDArray[np.float32]) -> None:
        self.number, self.mixed, self.adapters = number, torch.from_numpy(mixed), list[Any]()
        self.config = self
        self.transform = EvaluationTransform(size=8)

    def feature_maps(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(2).mT @ self.mixed

    def adapt(self, channels: NDArray[np.float32]) -> None:
        self.adapters.append(channels)


@pytest.fixture
def classes(tmp_path: Path) -> dict[str, list[Path]]:
    draws, found = np.random.default_rng(0), dict[str, list[Path]]()
    for name, colour, photos in (("a", (200, 60, 60), 2), ("b", (60, 200, 60), 2), ("c", (60, 60, 200), 1)):
        found[name] = [tmp_path / f"{name}{number}.png" for number in range(photos)]
        for path in found[name]:
            Image.fromarray(draws.normal(colour, 40, (8, 8, 3)).clip(0, 255).astype(np.uint8)).save(path)
    return found


@pytest.mark.parametrize(
    ("layers", "best"), [([KEEPS], 1), ([BLURS, KEEPS], 2), ([KEEPS] * 5, 1)], ids=["one", "two", "five"]
)
def test_best_of_the_last_four_layers_is_adapted(classes: dict[str, list[Path]], layers: list[Any], best: int) -> None:
    def build(number: int) -> Any:
        if number > len(layers):
            raise FrnError(f"no layer {number}")
        return Layer(number, layers[number - 1])

    lines: list[str] = []
    model: Any
    model, tried = choose_layer(build, classes, lines.append)
    assert sorted(each.layer for each in tried) == [*np.repeat(range(1, min(len(layers), 4) + 1), 3)]
    assert sorted(map(str, tried)) == sorted(lines)
    assert str(tried[0]) == f"layer {best}, whitened: 4 of 4 photos right by leave-one-out"
    assert model.number == best
    (channels,) = model.adapters
    np.testing.assert_array_equal(channels, dict(channel_maps(pools_of(model, classes)))["whitened"])


@pytest.mark.parametrize(("photos", "reason"), [((2, 2), "no layer 1"), ((2, 1), "of two photos or more, and 1 of 2")])
def test_a_network_without_layers_and_classes_too_small_are_reported(photos: tuple[int, ...], reason: str) -> None:
    def build(layer: int) -> Any:
        raise FrnError(f"no layer {layer}")

    with pytest.raises(FrnError, match=reason):
        choose_layer(build, {str(place): [Path("x")] * count for place, count in enumerate(photos)}, print)


def test_pools_are_the_feature_maps_of_the_photos() -> None:
    model, paths = small_model(), sorted((DRAWINGS / "queries").iterdir())[:2]
    extractor = Extractor(features_graph(model).SerializeToString(), "m")
    expected = extractor.feature_maps(np.stack([extractor.transform(open_image(path)) for path in paths]))
    (pool,) = pools_of(model, {"a": paths})
    np.testing.assert_allclose(pool, expected, atol=1e-5 * expected.max())


def test_channel_maps_whiten_or_project_and_keep_the_energy() -> None:
    spread = np.array([9, 5, 3, 1, 0.5, 0.2, 0.1])
    pool = (np.random.default_rng(0).normal(size=(40, 30, 7)) * spread).astype(np.float32)
    maps = dict(channel_maps([pool]))
    assert maps["plain"] is None
    for name, rank in (("principal half", 4), ("whitened", 7)):
        channels = maps[name]
        assert channels is not None
        mapped = pool @ channels
        np.testing.assert_allclose(np.square(mapped).sum(), np.square(pool).sum(), rtol=1e-5)
        assert np.linalg.matrix_rank(channels) == rank
    before, after = (np.einsum("kri,krj->ij", each, each) for each in (pool, mapped))
    whitened = before @ np.linalg.inv(before + before.trace() / 7 * np.eye(7))  # (M + mean variance I)^-1
    np.testing.assert_allclose(after / after.trace(), whitened / whitened.trace(), atol=1e-4)
