"""A trained backbone with a different head."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from frn.data.folders import scan
from frn.data.pixel_cache import Progress, load_images
from frn.errors import FrnError
from frn.evaluation.evaluate_model import EvaluationOptions, evaluate, with_method
from frn.evaluation.features import TorchExtractor
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.models.zoo import shipped_extractors


def small(method: str = "proto", backbone: str = "conv4") -> Model:
    config = ModelConfig(backbone=backbone, method=method, last_pool=False, transform=EvaluationTransform(size=32))
    return Model(config).eval()


def test_the_backbone_is_kept_and_the_head_is_replaced() -> None:
    model, images = small(), torch.rand(3, 3, 32, 32)
    other = with_method(model, "simpleshot")
    assert other.config.method == "simpleshot"
    assert not other.training
    torch.testing.assert_close(other.feature_maps(images), model.feature_maps(images))


def test_a_fine_tuned_backbone_stays_fine_tuned() -> None:
    model, images = small(), torch.rand(3, 3, 32, 32)
    model.adapter = torch.nn.Linear(64, 64, bias=False)
    torch.testing.assert_close(with_method(model, "cosine").feature_maps(images), model.feature_maps(images))


def test_a_head_of_other_networks_is_refused() -> None:
    with pytest.raises(FrnError, match="uses the maps of a different number of networks"):
        with_method(small("lccrn"), "frn")


def test_maps_are_scaled_for_the_new_head() -> None:
    """The authors divide only FRN's ResNet-12 features by the square root of 640."""
    model, images = small("proto", "resnet12"), torch.rand(2, 3, 32, 32)
    scaled = with_method(model, "frn").feature_maps(images)
    torch.testing.assert_close(scaled * 640**0.5, model.feature_maps(images))


def test_a_head_with_layers_is_refused() -> None:
    with pytest.raises(FrnError, match=r"method 'ctx' has layers that need training \(key.weight, value.weight\)"):
        with_method(small(), "ctx")


def test_centre_is_the_mean_feature_for_any_batch_size(moths: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn.evaluation.features.BATCH", 7)
    model = small()
    images = load_images(scan(moths / "train"), model.config.transform)
    naive = TorchExtractor(model).extract(images).double().mean((0, 1)).float()
    torch.testing.assert_close(TorchExtractor(model).mean_feature(images), naive)


def test_one_and_five_shots_are_measured_by_default(moths: Path) -> None:
    options = EvaluationOptions(model="conv4", data=moths, episodes=2, queries=7)

    def accuracies(options: EvaluationOptions) -> dict[int, float]:
        return {result["shot"]: result["accuracy"] for result in evaluate(options)}

    found = accuracies(options)
    assert list(found) == [1, 5]
    assert found == accuracies(replace(options, shot=[1, 5], seed=0)) != accuracies(replace(options, seed=1))
    assert list(accuracies(replace(options, shot=[3]))) == [3]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"method": "proto"}, "--method: an exported model has a fixed head"),
        ({"precision": "bf16"}, "--precision: an exported model has a fixed head and precision"),
    ],
)
def test_exported_models_are_fixed(moths: Path, change: dict[str, Any], reason: str) -> None:
    options = EvaluationOptions(model=str(shipped_extractors()["conv4"]), data=moths, device="cpu")
    with pytest.raises(FrnError, match=reason):
        evaluate(replace(options, **change))


@pytest.fixture
def tiny(tmp_path: Path) -> EvaluationOptions:
    """Options for a data set of three classes of four noisy images in each split."""
    generator = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for name in "abc":
            (tmp_path / split / name).mkdir(parents=True)
            for number in range(4):
                noise = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(noise).save(tmp_path / split / name / f"{number}.png")
    return EvaluationOptions(
        model="conv4", data=tmp_path, way=2, shot=[1], queries=2, episodes=2, device="cpu", threads=1
    )


@pytest.mark.parametrize(
    ("method", "titles"),
    [
        (None, ["decoding test", "features", "episodes"]),
        ("frn", ["decoding test", "decoding val", "features", "episodes"]),
        ("simpleshot", ["decoding train", "centre", "decoding test", "features", "episodes"]),
        ("nearest-mean", ["decoding test", "features", "episodes"]),
    ],
)
def test_each_method_reads_only_the_splits_that_it_needs(
    tiny: EvaluationOptions, method: str | None, titles: list[str]
) -> None:
    shown: list[str] = []

    @contextmanager
    def bars(title: str) -> Iterator[Progress]:
        shown.append(title)
        yield lambda done, total: None

    (found,) = evaluate(replace(tiny, method=method), bars=bars)
    assert shown == titles
    assert ("head" in found) == (method == "frn")
    assert "tuned" not in found


def test_unreadable_images_are_reported_and_threads_are_set(tiny: EvaluationOptions) -> None:
    (tiny.data / "test" / "a" / "0.png").write_bytes(b"no image")
    threads = torch.get_num_threads()
    reasons: list[str] = []
    try:
        torch.set_num_threads(2)
        evaluate(tiny, warn=reasons.extend)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert len(reasons) == 1
    assert "0.png" in reasons[0]
