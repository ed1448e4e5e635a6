"""Results on a device, compared with float64 results on the processor.

Set `FRN_TEST_DEVICE=cuda` to choose the device, as `gpu.sh` does; by default it is the processor. The `meta` device
checks that a step never waits for the device, because reading a number fails there.
"""

import copy
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import numpy as np
import pytest
import torch

from frn.data.batch_augmentation import augment
from frn.data.synthetic import draw_classes
from frn.episodes import EpisodeShape
from frn.evaluation.episodes import episode_accuracies
from frn.evaluation.features import TorchExtractor
from frn.heads.frn import FRNHead
from frn.models.model import Model, load_model
from frn.training.loop import StepReport, ValidationReport, _Step, train
from frn.training.objectives import EpisodicObjective, PretrainingObjective
from frn.training.presets import Preset, Schedule, find_preset
from frn.training.runs.run import RunSettings
from frn.training.setup import build_optimizer, new_model
from tests import processes

DEVICE = torch.device(os.environ.get("FRN_TEST_DEVICE", "cpu"))
SHAPE = EpisodeShape(way=3, shot=2, queries=2)


@pytest.fixture(autouse=True)
def _whole_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions on a GPU reduce float32 precision by default."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.parametrize("backbone", ["conv4", "resnet12"])
@pytest.mark.parametrize("objective", ["episodes", "frn-pretrain"])
def test_step_does_not_wait_for_the_device(backbone: str, objective: Literal["episodes", "frn-pretrain"]) -> None:
    preset = replace(find_preset(f"cub-cropped-{backbone}"), episode=SHAPE, objective=objective)
    preset = replace(preset, pretraining=replace(preset.pretraining, batch=12))
    model = new_model(preset, 0)
    kind = EpisodicObjective if objective == "episodes" else PretrainingObjective
    objectives = kind(preset, model, [4, 4, 4]).to("meta")
    step = _Step(model.to("meta").train(), objectives, RunSettings(device="meta"))
    optimizer = build_optimizer(step.parameters(), preset.schedule)
    sampled = np.arange(12) if objective == "frn-pretrain" else np.arange(12).reshape(3, 4)
    canvas, extents = draw_classes(3, 4, size=90, seed=1).gather(sampled.ravel())
    generator = np.random.default_rng(0)
    images = augment(canvas, extents, preset.augmentation, generator, "meta")
    with patch("torch.autocast", lambda *_, **__: nullcontext()):  # autocast does not support this device
        loss, logits, target = step(images, sampled, generator)
    loss.backward()
    optimizer.step()
    assert loss.is_meta
    assert logits.shape == (len(target), 3)


def learned(model: Model, preset: Preset, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """Compute maps, loss and gradients of an episode on the processor in float64."""
    maps = model.train().feature_maps(images)
    sampled = np.arange(len(images)).reshape(preset.episode.way, -1)
    loss, _, _ = EpisodicObjective(preset, model, [8] * 3).score(model, maps, sampled)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name: value.detach().double().cpu() for name, value in ({"maps": maps, "loss": loss} | gradients).items()}


@pytest.mark.parametrize("name", ["conv4", "resnet12-small"])
def test_maps_loss_and_gradients_are_close_to_those_in_float64(name: str) -> None:
    model, preset = load_model(name), replace(find_preset("demo"), episode=SHAPE)
    images = torch.rand(12, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    exact = learned(copy.deepcopy(model).double(), preset, images.double())
    found = learned(model.to(DEVICE), preset, images.to(DEVICE))
    assert set(found) == set(exact)
    for key, value in exact.items():
        error = (found[key] - value).norm() / value.norm().clamp(min=0.01)  # the gradient of Conv-4's biases is zero
        assert error < 1e-3, f"{key}: {error:.1e}"


def test_system_without_a_cholesky_factor_gives_nan_or_an_error() -> None:
    """If features are not finite, neither is the loss of the step, and the loop reports this."""
    support = torch.full((2, 1, 4, 8), torch.nan, device=DEVICE)
    query = torch.zeros(3, 4, 8, device=DEVICE)
    if DEVICE.type == "cpu":
        with pytest.raises(ValueError, match="is not positive definite"):
            FRNHead()(support, query)
    else:
        assert FRNHead().to(DEVICE)(support, query).isnan().all()


def test_episodes_are_scored_on_the_device_of_the_maps() -> None:
    images = draw_classes(4, 8, size=32, seed=1)
    shape = EpisodeShape(way=3, shot=2, queries=4)
    found = []
    for device in (torch.device("cpu"), DEVICE):
        model = load_model("conv4").to(device)
        maps = TorchExtractor(model, device=device).extract(images)
        assert maps.device.type == device.type
        found.append(100 * episode_accuracies(model.head, maps, images.sizes, shape, episodes=range(16), seed=0).mean())
    assert found[1] == pytest.approx(found[0], abs=1.0)


def test_a_stopped_run_resumes_as_if_uninterrupted(tmp_path: Path) -> None:
    preset = replace(find_preset("demo"), episode=SHAPE, schedule=Schedule(epochs=1, milestones=()))
    images = draw_classes(4, 12, size=32, seed=1)

    def run(folder: str, steps: int, *, resume: bool = False) -> list[float]:
        losses: list[float] = []
        settings = RunSettings(device=DEVICE, resume=resume)
        stop = lambda: len(losses) == steps  # noqa: E731

        def report(event: StepReport | ValidationReport) -> None:
            losses.extend([event.loss] if isinstance(event, StepReport) else [])

        train(preset, images, images, tmp_path / folder, settings, report=report, stop=stop)
        return losses

    whole = run("whole", 5)
    parts = run("parts", 2) + run("parts", 3, resume=True)
    assert parts == (whole if DEVICE.type == "cpu" else pytest.approx(whole, rel=1e-3))


@pytest.mark.runtimes
def test_the_gpu_script_writes_its_page(tmp_path: Path) -> None:
    script, page = Path(__file__).parents[3] / "assets" / "benchmarks" / "gpu.sh", tmp_path / "gpu.md"
    environment = os.environ | {"PYTHON": sys.executable, "PYTEST_ADDOPTS": "-k scored_on"}
    processes.run([script, "cpu", page], check=True, env=environment, timeout=200)
    written = page.read_text(encoding="utf-8")
    assert f"torch {torch.__version__}" in written
    assert "test_episodes_are_scored_on_the_device_of_the_maps PASSED" in written
