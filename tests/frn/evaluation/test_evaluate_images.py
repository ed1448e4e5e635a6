"""Evaluation of models and of methods on image folders."""

import copy
import time
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
from frn.data.synthetic import draw_classes
from frn.errors import FrnError
from frn.evaluation.evaluate_model import EvaluationOptions, evaluate_images, evaluate_model, with_method
from frn.evaluation.features import TorchExtractor
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model
from frn.models.zoo import shipped_extractors

OPTIONS = EvaluationOptions(model="", data=Path(), way=3, shot=[2], queries=3)


def untrained(method: str) -> Model:
    torch.manual_seed(0)
    return Model(ModelConfig(backbone="conv4", method=method, transform=EvaluationTransform(size=32))).eval()


def test_tuning_an_untrained_head_does_not_change_the_model() -> None:
    model, before = untrained("frn"), copy.deepcopy(untrained("frn").state_dict())
    images, others = (draw_classes(4, 6, size=32, seed=seed) for seed in (1, 2))
    plan = replace(OPTIONS, episodes=20)
    (tuned,) = evaluate_images(TorchExtractor(model, untrained_head=True), images, plan, validation=others)
    assert tuned["head"] != {"alpha": 0.0, "beta": 0.0, "gamma": 1.0}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_enrolled_and_transductive_accuracies_are_reported_with_the_protocol() -> None:
    images = draw_classes(4, 9, size=32, seed=1)
    plan = replace(OPTIONS, episodes=6, transductive=True)
    began = time.perf_counter()
    (found,) = evaluate_images(TorchExtractor(untrained("frn")), images, plan)
    assert 0 <= found["seconds"] <= time.perf_counter() - began + 0.001  # it is rounded
    (plain,) = evaluate_images(TorchExtractor(untrained("frn")), images, replace(plan, transductive=False))
    assert found["accuracy"] == plain["accuracy"]
    (again,) = evaluate_images(TorchExtractor(untrained("frn")), images, replace(plan, seed=0))
    assert again["transductive"] == found["transductive"]
    assert "tuned" not in plain
    assert found["tuned"]["accuracy"] > 40
    assert set(found["transductive"]) == {"balanced", "dirichlet_inductive", "dirichlet"}


def test_classifier_on_pooled_features_replaces_the_head() -> None:
    images = draw_classes(4, 9, size=32, seed=1)
    plan = replace(OPTIONS, episodes=6, method="nearest-mean")
    (found,) = evaluate_images(TorchExtractor(untrained("frn")), images, plan)
    assert found["accuracy"] > 40
    with pytest.raises(FrnError, match="--tune and --transductive enroll classes"):
        evaluate_images(TorchExtractor(untrained("frn")), images, replace(plan, tune=True))


@pytest.mark.parametrize("part", ["backbone", "head"])
@pytest.mark.parametrize("method", ["frn", "simpleshot"])
def test_model_with_non_finite_values_is_refused(method: str, part: str) -> None:
    model, plan = untrained(method), replace(OPTIONS, episodes=2)
    next(iter(model.get_submodule(part).state_dict().values())).fill_(torch.nan)
    with pytest.raises(FrnError, match="the model is damaged: its weights or feature maps are not finite"):
        evaluate_images(TorchExtractor(model), draw_classes(4, 6, size=32, seed=1), plan)


def test_splits_that_are_too_small_are_named() -> None:
    small, large = draw_classes(4, 4, size=32, seed=1), draw_classes(4, 5, size=32, seed=1)
    plan, model = replace(OPTIONS, episodes=2), untrained("frn")
    with pytest.raises(FrnError, match="the validation split"):
        evaluate_images(TorchExtractor(model, untrained_head=True), large, plan, validation=small)
    with pytest.raises(FrnError, match="birds/test"):
        evaluate_images(TorchExtractor(model), small, plan, where="birds/test")
    (found,) = evaluate_images(TorchExtractor(model), large, plan)
    assert (found["way"], found["shot"], found["queries"], found["episodes"]) == (3, 2, 3, 2)
    assert set(found) == {"way", "shot", "queries", "episodes", "accuracy", "ci95", "seconds"}


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
        return {result["shot"]: result["accuracy"] for result in evaluate_model(options)}

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
        evaluate_model(replace(options, **change))


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

    (found,) = evaluate_model(replace(tiny, method=method), bars=bars)
    assert shown == titles
    assert ("head" in found) == (method == "frn")
    assert "tuned" not in found


def test_unreadable_images_are_reported_and_threads_are_set(tiny: EvaluationOptions) -> None:
    (tiny.data / "test" / "a" / "0.png").write_bytes(b"no image")
    threads = torch.get_num_threads()
    reasons: list[str] = []
    try:
        torch.set_num_threads(2)
        evaluate_model(tiny, warn=reasons.extend)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert len(reasons) == 1
    assert "0.png" in reasons[0]
