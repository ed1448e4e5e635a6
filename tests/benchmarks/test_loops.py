"""Timed programs compute the same results."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from bench.photos import in_memory, timed_classes
from bench.plain import EVALUATION, PLAIN, Photos, plain_accuracy, plain_error, plain_loss, plain_maps
from bench.timing import step_operations
from head import OURS, POT, time_heads
from memory import measure_memory
from PIL import Image

from frn.backbones import build_backbone
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.training.losses import episode_loss
from tests.benchmarks.scripts import output

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


needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT: the extra `emd`")


def test_the_plain_formulations_equal_the_head() -> None:
    support, query = torch.randn(3, 2, 9, 16), torch.randn(4, 9, 16)
    ours = FRNHead().class_error(support, query)
    for formulation in PLAIN:
        torch.testing.assert_close(plain_error(support, query, formulation), ours, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("shot", [1, 5, 20])
def test_head_is_faster_than_the_paper_formulations_with_many_channels(shot: int, backward: bool) -> None:
    shape = EpisodeShape(way=5, shot=shot, queries=15 if backward else 16)
    milliseconds = time_heads(shape, 640, 25, backward=backward, rounds=3)
    assert all(milliseconds[plain] > milliseconds[OURS] for plain in PLAIN)


@needs_pot
@pytest.mark.parametrize("backward", [False, True])
def test_whole_episodes_and_deepemd_are_timed(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("head.build_backbone", lambda name: build_backbone("conv4"))
    shape = EpisodeShape(way=2, shot=1, queries=1)
    milliseconds = time_heads(shape, 64, 25, whole=True, backward=backward, sfc_passes=1, rounds=1)
    assert set(milliseconds) == {POT, *PLAIN, OURS}


def test_attention_over_all_pools_uses_its_weights() -> None:
    """CTX stores way x (queries r) x (shot r) weights and their gradients; FRN's closed form stores far less."""
    shape = EpisodeShape(way=8, shot=2, queries=4)
    attention = 4 * 8 * (8 * 4 * 100) * (2 * 100) / 1e6
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process its peak exactly")
    ctx, ours = (measure_memory(name, shape, 100, 16, whole=False, device="cpu") for name in ("ctx", "frn, torch"))
    assert attention < ctx < 8 * attention
    assert ours < attention


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_every_target_is_measured() -> None:
    measures = {row["what"]: row for row in json.loads(output("app", "--quick", "--json"))}
    assert {"first paint", "key, while photos are added, p95", "cancel", "2,000 photos listed"} < measures.keys()
    assert measures["processes left behind"]["measured"] == 0  # also on a busy machine
