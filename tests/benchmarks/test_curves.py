"""Plots of training curves, from the metrics of runs."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from curves import read_curves, smooth

from tests.benchmarks.scripts import invoke


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with forty steps and two validations that was killed in the middle of a line."""
    folder = tmp_path / "a run"
    folder.mkdir()
    lines = [json.dumps({"total_steps": i, "loss": 2 / i, "accuracy": 50 + i}) for i in range(1, 41)]
    lines.insert(20, json.dumps({"total_steps": 20, "val_accuracy": 61.5, "val_ci95": 1.0}))
    lines.append(json.dumps({"total_steps": 40, "val_accuracy": 70.25, "val_ci95": 1.0}))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + '\n{"total_steps": 41, "lo')
    return folder


def test_curves_show_the_metrics(run: Path) -> None:
    found = read_curves(run)
    assert found.loss[0].tolist() == list(range(1, 41))
    assert found.loss[1] == pytest.approx([2 / i for i in range(1, 41)])
    assert [part.tolist() for part in found.validation] == [[20, 40], [61.5, 70.25]]


def test_nan_is_not_plotted(tmp_path: Path) -> None:
    others: list[object] = ["x", None, True, [1], {}, 10**400, math.nan, math.inf]
    lines = [{"total_steps": 1, "loss": 2.5}, *({"total_steps": 2, "loss": other} for other in others), {"loss": 1.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "[" * 99_999)
    assert [part.tolist() for part in read_curves(tmp_path).loss] == [[1.0], [2.5]]


def test_smoothed_value_is_the_mean_of_earlier_values() -> None:
    values = np.arange(10.0) ** 2
    assert smooth(values, 4).tolist() == pytest.approx([values[max(0, i - 3) : i + 1].mean() for i in range(10)])


def test_runs_are_drawn_as_png_and_svg(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    png, svg = tmp_path / "c.png", tmp_path / "c.svg"
    done = invoke("curves", run, run, "--out", png, "--out", svg)
    assert done.exit_code == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "a run" in svg.read_text(encoding="utf-8")
    first = svg.read_bytes()
    invoke("curves", run, run, "--out", svg)
    assert svg.read_bytes() == first


def test_folder_without_a_run_is_reported(tmp_path: Path) -> None:
    done = invoke("curves", tmp_path, "--out", tmp_path / "c.png")
    assert done.exit_code == 1
    assert "is not a run folder: it has no metrics.jsonl" in done.stderr
    (tmp_path / "metrics.jsonl").write_text("")
    assert "has no training step yet" in invoke("curves", tmp_path, "--out", "c.png").stderr
    assert "a picture must end in .png" in invoke("curves", tmp_path, "--out", "c.gif").stderr
