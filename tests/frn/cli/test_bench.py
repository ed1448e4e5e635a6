"""`frn bench` as people call it."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from frn.checkpoints import save_model
from frn.cli.main import app
from frn.images import EvaluationTransform
from frn.model import Model
from frn.model_file import ModelConfig

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def bench(*words: object) -> Result:
    """Run a command; the runner puts these variables back, which the command sets."""
    result = CliRunner(env=ONE_THREAD).invoke(app, ["bench", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    path = tmp_path / "small.safetensors"
    save_model(Model(ModelConfig(backbone="conv4", method="frn", transform=EvaluationTransform(size=32))), path)
    return path


def test_the_head_is_compared_with_both_listings() -> None:
    words = ("head", "--d", 16, "--shot", 1, "--rounds", 1)
    (episode,) = json.loads(bench(*words, "--json").stdout)
    contestants = {"paper, Eq. 8", "paper, Eq. 10", "frn, torch", "frn, numpy", "frn, onnx"}
    assert (episode["d"], episode["shot"]) == (16, 1)
    assert set(episode["milliseconds"]) == contestants
    assert set(episode["times_as_fast"]) == {"paper, Eq. 8", "paper, Eq. 10"}
    for listing, faster in episode["times_as_fast"].items():
        assert set(faster) == contestants
        assert faster["frn, onnx"] == episode["milliseconds"][listing] / episode["milliseconds"]["frn, onnx"]
    assert "d = 16, 5-way 1-shot  frn, onnx" in bench(*words).stdout


def test_an_exported_model_is_compared_with_torch_and_a_classifier_with_its_extractor(model: Path) -> None:
    words = ("infer", "--model", model, "--batch", 2, "--rounds", 1)
    timing = json.loads(bench(*words, "--json").stdout)
    (batch,) = timing["extractor"]
    assert timing["model"] == str(model)
    assert batch["batch"] == 2
    assert batch["times_as_fast"] == batch["milliseconds"]["torch"] / batch["milliseconds"]["onnxruntime"]
    assert [(image["height"], image["width"]) for image in timing["classifier"]] == [(64, 64), (480, 640)]
    for image in timing["classifier"]:
        assert image["times_as_long"] == image["milliseconds"]["classifier"] / image["milliseconds"]["extractor"]
    text = bench(*words).stdout
    assert "onnxruntime, 2 at once" in text
    assert "classifier, 640 x 480" in text
