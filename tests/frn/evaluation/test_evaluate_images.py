"""Evaluating a model on a split."""

import copy
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from frn.data.synthetic import draw_classes
from frn.errors import FrnError
from frn.evaluation.evaluate_model import EvaluationOptions, evaluate_images
from frn.evaluation.features import TorchExtractor
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model

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
