"""The page about an evaluation."""

import json
from pathlib import Path

import torch
from typer.testing import CliRunner

from frn.cli.main import app
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig
from frn.models.model import Model, save_model
from tests.benchmarks.scripts import invoke
from tests.frn.report.test_reports import assert_alone


def test_an_evaluation_report_shows_every_shot_with_the_same_numbers(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "eval.html"
    words = list(map(str, ("conv4", "--data", moths, "--way", 2, "--queries", 5, "--episodes", 30)))
    plain = CliRunner().invoke(app, ["eval", *words, "--json"], catch_exceptions=False)
    rows = json.loads(plain.stdout)["results"]
    done = invoke("evaluate", *words, "--out", out)
    assert done.exit_code == 0, done.stderr
    text = out.read_text(encoding="utf-8")
    assert_alone(text)
    for row in rows:
        assert f"{row['accuracy']:.2f} ± {row['ci95']:.2f}%" in text
        assert f"2-way {row['shot']}-shot: known and unknown photos" in text
        assert f"2-way {row['shot']}-shot: hardest episodes" in text
    assert "error map of" in text
    assert [row["shot"] for row in rows] == [1, 5]


def test_too_few_classes_to_measure_unknown_photos_are_reported(moths: Path, tmp_path: Path) -> None:
    out = tmp_path / "eval.html"
    invoke("evaluate", "conv4", "--data", moths, "--shot", 1, "--queries", 5, "--episodes", 5, "--out", out)
    assert "Not measured: this needs twice as many classes" in out.read_text(encoding="utf-8")
    refused = invoke("evaluate", "conv4", "--data", moths, "--out", tmp_path / "out.pdf")
    assert refused.exit_code == 1
    assert "out.pdf: a report is an HTML page" in refused.stderr


def test_unknown_photos_are_detected_by_reconstruction_alone(moths: Path, tmp_path: Path) -> None:
    words = ("--data", moths, "--way", 2, "--shot", 1, "--queries", 2, "--episodes", 5, "--unknown")
    done = invoke("evaluate", "conv4", *words, "--out", tmp_path / "eval.html")
    assert "2-way 1-shot: known from unknown: AUROC " in done.stdout
    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method="proto", transform=EvaluationTransform(size=32))
    save_model(Model(config), tmp_path / "proto.safetensors")
    refused = invoke("evaluate", tmp_path / "proto.safetensors", *words, "--out", tmp_path / "eval.html")
    assert refused.exit_code == 1
    assert "--unknown needs a model trained with --method frn" in refused.stderr
