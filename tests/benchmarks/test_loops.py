"""The loops in `frn` and by the authors compute the same, and the printed figures follow from the measured times."""

from pathlib import Path

import numpy as np
import pytest
import torch
from bench.photos import in_memory, timed_classes
from bench.plain import EVALUATION, Photos, plain_accuracy, plain_loss, plain_maps
from bench.timing import step_operations
from PIL import Image

from frn.episodes import EpisodeShape
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.training.losses import episode_loss

SHAPE = EpisodeShape(way=3, shot=2, queries=1)


def untrained(backbone: str) -> Model:
    torch.manual_seed(0)
    return Model(ModelConfig(backbone=backbone, method="frn", transform=EvaluationTransform(size=84, resize=92)))


@pytest.mark.parametrize("backbone", ["conv4", "resnet12"])
def test_loop_by_the_authors_gives_the_same_results(backbone: str) -> None:
    model = untrained(backbone)
    images = torch.rand(SHAPE.way * SHAPE.per_class, 3, 32, 32)
    ours = model.feature_maps(images)
    plain = plain_maps(model, (images - model.mean) / model.std)
    torch.testing.assert_close(plain, ours, rtol=1e-4, atol=1e-4)
    supports = SHAPE.way * SHAPE.shot
    support, query = ours[:supports].unflatten(0, (SHAPE.way, SHAPE.shot)), ours[supports:]
    loss = episode_loss(model.head(support, query), support, SHAPE.queries)
    torch.testing.assert_close(plain_loss(model, plain, SHAPE), loss, rtol=1e-3, atol=1e-3)


def test_test_loop_by_the_authors_reads_support_files_first(tmp_path: Path) -> None:
    """Queries equal to the supports are always classified correctly, and never with shifted labels."""
    photos = timed_classes(2, 2, tmp_path)
    files = [of_class[0] for of_class in photos.values()]
    episodes = [[0, 1, 0, 1], [0, 1, 1, 0]]
    shape = EpisodeShape(way=2, shot=1, queries=1)
    assert list(plain_accuracy(untrained("conv4"), files, episodes, shape, torch.device("cpu"))) == [1.0, 0.0]


def test_test_images_of_the_authors_loop_equal_those_of_frn(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (100, 130, 3), dtype=np.uint8)).save(path)
    model = untrained("conv4")
    (stored,) = in_memory({"a": [path]}, model.config.transform).images()
    ours = (torch.from_numpy(stored.copy()).permute(2, 0, 1) / 255 - model.mean) / model.std
    torch.testing.assert_close(Photos([path], EVALUATION)[0], ours, rtol=0, atol=0.02)


def test_counted_operations_are_convolutions_and_their_gradients() -> None:
    """Conv-4 at 16 pixels has 16, 8, 4 and 2 pixel maps; the images need no gradient."""
    products = [9 * 3 * 64 * 16**2, 9 * 64 * 64 * 8**2, 9 * 64 * 64 * 4**2, 9 * 64 * 64 * 2**2]
    assert step_operations("conv4", 5, size=16) == 2 * 5 * (2 * products[0] + 3 * sum(products[1:]))
