"""Averaging the weights of several runs."""

from pathlib import Path

import pytest
import torch
from average import mean_model

from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from tests.benchmarks.scripts import invoke


def build(seed: int, *, size: int = 32) -> Model:
    torch.manual_seed(seed)
    model = Model(ModelConfig(backbone="conv4", method="frn", transform=EvaluationTransform(size=size))).train()
    model.feature_maps(torch.rand(4, 3, size, size))  # changes the running statistics
    model.record = {"seed": seed, "preset": f"demo-{seed}", "data": "moths", "validation": {"accuracy": 50.0}}
    return model.eval()


def test_every_weight_and_statistic_is_the_mean(tmp_path: Path) -> None:
    models = [build(seed) for seed in range(3)]
    paths = [tmp_path / f"{seed}.safetensors" for seed in range(3)]
    for model, path in zip(models, paths, strict=True):
        save_model(model, path)
    made = invoke("average", *paths, "--out", tmp_path / "mean.safetensors")
    assert made.exit_code == 0, made.output
    mean = load_model(tmp_path / "mean.safetensors")
    states = [dict(model.state_dict()) for model in models]
    for name, value in mean.state_dict().items():
        torch.testing.assert_close(value.double(), sum(state[name].double() for state in states) / 3)
    assert mean.record == {"preset": "demo-0", "data": "moths", "mean_of": [model.record for model in models]}


def test_averaging_a_model_with_itself_returns_the_model() -> None:
    model = build(0)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(mean_model([model, model]).feature_maps(images), model.feature_maps(images))


def test_models_that_cannot_be_averaged_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="an average needs at least two models, not 1"):
        mean_model([build(0)])
    with pytest.raises(FrnError, match="models of the same type: frn on conv4 at 48 pixels, frn on conv4 at 32"):
        mean_model([build(0), build(1, size=48)])
    told = invoke("average", tmp_path, tmp_path, "--out", tmp_path / "mean.pth")
    assert told.exit_code == 1
    assert "a model file must end in .safetensors" in told.output.replace("\n", " ")
