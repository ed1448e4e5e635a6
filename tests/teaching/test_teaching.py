"""Teaching: losses, blocks that learn from blocks, and a run that can be resumed."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lessons import whole
from lessons.blocks import learn_blocks
from lessons.matching import MuonAdamW, Whitening, neighbour_divergence, orthogonalised
from lessons.teacher import at_locations
from lessons.whole import STAGES, Lesson, Stage, episode_classes, follow, learn_whole
from PIL import Image

from frn.errors import FrnError
from frn.models.model import Model, load_model
from frn.training.runs.run import RunResult, RunSettings
from tests.benchmarks.scripts import invoke
from tests.frn.training.tiny import assert_same
from tests.teaching.colours import PHOTOS, Colours, network


def run(
    folder: Path, *, model: Model | None = None, share: float = 0.6, stop_after: int | None = None, resume: bool = False
) -> RunResult:
    taken: list[int] = []
    stage = Stage(epochs=1, rate=1e-2, share=share, weight=0.7)
    return learn_whole(
        Lesson(model or network()[0], Colours(), PHOTOS, [1.0], stage, 0), folder, RunSettings(resume=resume),
        report=lambda step, loss: taken.append(step), stop=lambda: stop_after is not None and len(taken) >= stop_after,
    )  # fmt: skip


def test_stopped_teaching_resumes_with_bit_identical_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "STEPS", 3)
    assert run(tmp_path / "whole").finished
    assert not run(tmp_path / "parts", stop_after=2).finished
    assert run(tmp_path / "parts", resume=True).finished
    assert_same(tmp_path / "whole" / "best.safetensors", tmp_path / "parts" / "best.safetensors")


@pytest.mark.nightly
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_student_learns_to_agree_with_its_teacher_without_and_with_episodes(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "STEPS", 12)
    model, backbone = network()
    learn_blocks(backbone, Colours(), PHOTOS, 30, 0)
    assert run(tmp_path, model=model, share=share).finished
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    errors = [line["map"] for line in lines]
    assert sum(errors[-4:]) < 0.9 * sum(errors[:4])
    assert {"episode" in line for line in lines} == {share > 0}


def test_labelled_photos_have_enough_classes_for_episodes() -> None:
    part = PHOTOS.images.parts[0]
    assert [len(places) for places in episode_classes(part)] == [12] * 4
    with pytest.raises(FrnError, match="episodes need two classes of at least 3 photos, and it has 1"):
        episode_classes(replace(part, sizes=(46, 2)))


def test_statistics_of_two_kinds_of_batches_are_those_of_both_together() -> None:
    norm, batches = (
        torch.nn.BatchNorm2d(2).eval(),
        torch.randn(2, 8, 2, 3, 3) + torch.tensor([-2.0, 2.0])[:, None, None, None, None],
    )
    for _ in range(500):
        for batch in batches:
            follow(norm, (batch,))
    both = batches.flatten(0, 1)
    torch.testing.assert_close(norm.running_mean, both.mean((0, 2, 3)), atol=0.05, rtol=0)
    torch.testing.assert_close(norm.running_var, both.var((0, 2, 3)), atol=0.2, rtol=0)


@pytest.mark.parametrize("shape", [(6, 40), (40, 6)])
def test_muon_takes_steps_of_the_size_of_adamw_along_all_directions(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    gradient = torch.randn(shape) * torch.logspace(0, -2, shape[1])
    values = torch.linalg.svdvals(orthogonalised(gradient))
    assert 0.6 < values.min() < values.max() < 1.3
    weights = torch.nn.Parameter(torch.zeros(*shape, 1, 1))
    optimizer = MuonAdamW([{"params": [weights], "muon": True, "weight_decay": 0.0}], lr=0.1)
    weights.grad = gradient.view_as(weights)
    optimizer.step()
    assert weights.square().mean().sqrt().item() == pytest.approx(0.2 * 0.1, rel=0.3)


def test_same_features_have_the_same_neighbours() -> None:
    features = torch.randn(6, 4)
    assert neighbour_divergence(features, 3 * features).item() == pytest.approx(0, abs=1e-5)
    assert neighbour_divergence(features, torch.randn(6, 4)).item() > 0.1


def test_whitening_takes_the_square_root_of_the_spread() -> None:
    torch.manual_seed(0)
    sample = torch.randn(20000, 2) * torch.tensor([4.0, 1.0]) + 7
    whitening = Whitening(sample)
    whitened = whitening(sample)
    assert whitened.mean(0).abs().max() < 0.01
    assert (whitened.std(0)[0] / whitened.std(0)[1]).item() == pytest.approx(2, rel=0.05)
    assert whitening.error(sample, sample).item() == 0
    assert whitening.distance(sample, sample).item() == pytest.approx(0, abs=1e-6)


def test_maps_of_a_larger_image_are_interpolated_at_the_students_locations() -> None:
    # Strides are centred on odd pixels: locations of 7 x 7 are centred on pixels 31, 63, ... of 224.
    centres = ((torch.arange(7.0) + 1) * 32 - 0.5) / 224
    maps = centres[:, None].expand(7, 7)[None, :, :, None]
    expected = ((torch.arange(6.0) + 1) * 32 - 0.5) / 192
    torch.testing.assert_close(at_locations(maps, 224, 7 / 6)[0, :, 2, 0], expected)


def test_a_student_is_taught_from_the_command_line_in_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm = pytest.importorskip("timm", reason="the extra `timm` is not installed")
    monkeypatch.setenv("FRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(whole, "STEPS", 1)
    for name, stage in STAGES.items():
        monkeypatch.setitem(STAGES, name, replace(stage, epochs=1, seeds=stage.seeds[:2]))
    torch.save(timm.create_model("tf_efficientnet_lite0").state_dict(), tmp_path / "teacher.pth")
    for name, (start, end) in {"named/train": (0, 12), "other": (0, 8)}.items():
        for i, image in enumerate(PHOTOS.images.parts[0].images()[start:end]):
            file = tmp_path / name / f"kind {i // 4}" / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(file)
    out = tmp_path / "run"
    words: list[Any] = ["--data", tmp_path / "named", "--photos", tmp_path / "other", "--out", out, "--steps", 1]
    words += ["--weights", tmp_path / "teacher.pth", "--side", 64, "--teacher-side", 96]
    result = invoke("teach", *words)
    assert result.exit_code == 0, result.stderr
    taught = load_model(out)
    assert taught.feature_maps(torch.rand(1, 3, 64, 64)).shape == (1, 4, 320)
    assert taught.record["teacher"] == "timm:tf_efficientnet_lite0"
    means = [name for name in STAGES if "mean_of" in load_model(out / f"{name}.safetensors").record]
    assert means == ["episodes", "further", "varied"]
    before, after, mean = (load_model(out / name) for name in ("further.safetensors", "varied-5", "varied.safetensors"))
    for value, old, new in zip(mean.parameters(), before.parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(value, (old + new) / 2)

    assert "is not empty. Add --resume" in invoke("teach", *words).stderr.replace("\n", " ")
    (out / "best.safetensors").rename(tmp_path / "first.safetensors")
    (out / "varied.safetensors").unlink()  # as if the last stage had been stopped
    assert invoke("teach", *words, "--resume").exit_code == 0
    assert_same(tmp_path / "first.safetensors", out / "best.safetensors")


@pytest.mark.nightly
def test_every_block_reproduces_its_map_better_with_more_steps() -> None:
    lines: list[str] = []
    learn_blocks(network()[1], Colours(), PHOTOS, 50, 0, lines.append)
    first, last = ([float(error) for error in re.findall(r"\d+\.\d\d", line)] for line in lines)
    assert len(first) == 14
    assert all(after < 0.6 * before for before, after in zip(first, last, strict=True)), lines


def test_blocks_that_see_the_networks_own_maps_bring_its_last_map_closer_to_the_teachers() -> None:
    backbone, teacher = network()[1], Colours()
    learn_blocks(backbone, teacher, PHOTOS, 50, 0)
    views = PHOTOS.draw(16, np.random.default_rng(1))

    def error() -> float:
        target = teacher(views)[-1].permute(0, 3, 1, 2)
        return (backbone.blocks(PHOTOS.seen(views)) - target).square().mean().item()

    before = error()
    learn_blocks(backbone, teacher, PHOTOS, 50, 0, own=True)
    assert error() < 0.9 * before


def test_every_block_is_trained_and_left_in_evaluation_mode() -> None:
    model, backbone = network()
    before = {name: value.clone() for name, value in model.backbone.state_dict().items()}
    learn_blocks(backbone, Colours(), PHOTOS, 1, 0)
    after = model.backbone.state_dict()
    assert not [name for name, value in before.items() if name.endswith("weight") and value.equal(after[name])]
    assert not any(block.training for block in backbone.blocks.children())
