"""Losses, objectives and the training loop."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.heads import HEADS, has_auxiliary_loss
from frn.heads.frn import FRNHead
from frn.images.transforms import EvaluationTransform
from frn.models.header import ModelConfig, read_header
from frn.models.model import Model, load_model
from frn.training.loop import StepReport, ValidationReport
from frn.training.losses import AUX_WEIGHT, auxiliary_loss, episode_loss
from frn.training.objectives import EpisodicObjective, PretrainingObjective
from frn.training.presets import Schedule, find_preset
from frn.training.presets.preset import Pretraining, ValidationProtocol
from frn.training.runs.run import RunSettings
from tests.frn.training.tiny import CLEAR, TINY, Objective, assert_same, pretraining, quick


@pytest.mark.nightly
def test_episodes_can_be_learned(tmp_path: Path) -> None:
    """The loss falls well below chance level on a few classes."""
    torch.set_num_threads(1)
    validation = ValidationProtocol(every=14, episodes=20)
    preset = replace(TINY, schedule=Schedule(epochs=14, milestones=(10,)), validation=validation)
    events, finished = quick(tmp_path / "run", preset)
    losses = [event.loss for event in events if isinstance(event, StepReport)]
    assert finished
    assert np.mean(losses[-10:]) < 0.75 * np.mean(losses[:5])


def test_run_writes_its_model_its_metrics_and_the_command_to_reproduce_it(tmp_path: Path) -> None:
    events, _ = quick(tmp_path / "run", settings=RunSettings(command="frn train tiny", facts={"data": "moths"}))
    steps = [event for event in events if isinstance(event, StepReport)]
    validations = [event for event in events if isinstance(event, ValidationReport)]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines if "loss" in line] == [round(step.loss, 5) for step in steps]
    assert [line["val_accuracy"] for line in lines if "val_accuracy" in line] == [v.accuracy.mean for v in validations]
    assert lines[-2]["learning_rate"] == pytest.approx(0.01)
    model = load_model(tmp_path / "run" / "best.safetensors")
    best = max(validations, key=lambda v: v.accuracy.mean)
    assert model.record["validation"] == {
        "shape": "5-way 2-shot", "accuracy": best.accuracy.mean, "ci95": best.accuracy.ci95,
    }  # fmt: skip
    assert model.record["data"] == "moths"
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert (config["episode"], config["schedule"]["epochs"]) == ({"way": 4, "shot": 2, "queries": 2}, 3)
    assert (tmp_path / "run" / "config.toml").read_text().startswith("# Written by frn\n# frn train tiny\n")
    assert load_model(tmp_path / "run" / "last.safetensors").config == model.config


def test_training_can_start_from_an_existing_model(tmp_path: Path) -> None:
    quick(tmp_path / "first")
    start = load_model(tmp_path / "first" / "best.safetensors")
    frozen = replace(TINY, schedule=Schedule(epochs=1, milestones=(), learning_rate=1e-12, weight_decay=0.0))
    quick(tmp_path / "second", frozen, init=start)
    second = load_model(tmp_path / "second" / "best.safetensors")
    for ours, theirs in zip(second.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(FrnError, match="--init is a conv4 model, but the run trains resnet12"):
        quick(tmp_path / "third", replace(TINY, backbone="resnet12"), init=start)
    with pytest.raises(
        FrnError, match="--init is a frn model, and lccrn uses the maps of a different number of networks"
    ):
        quick(tmp_path / "third", replace(TINY, method="lccrn"), init=start)


def test_seed_may_have_more_bits_than_torch_allows(tmp_path: Path) -> None:
    preset = replace(TINY, schedule=Schedule(epochs=1, milestones=()))
    quick(tmp_path / "run", preset, settings=RunSettings(seed=1 << 70))
    assert read_header(tmp_path / "run" / "best.safetensors")[1]["seed"] == 1 << 70


@pytest.mark.nightly
@pytest.mark.parametrize("objective", ["frn-pretrain", "average-pretrain"])
def test_pretraining_learns_the_classes_and_saves_a_plain_model(tmp_path: Path, objective: Objective) -> None:
    torch.set_num_threads(1)
    preset = pretraining(objective, schedule=Schedule(epochs=25, milestones=(20,)), every=25, **CLEAR)
    events, finished = quick(tmp_path / "run", preset)
    losses = [event.loss for event in events if isinstance(event, StepReport)]
    assert finished
    assert losses[0] > 1.5  # eight classes: chance level is log 8 = 2.1
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    model = load_model(tmp_path / "run" / "best.safetensors")
    assert not [name for name in model.state_dict() if "dummy" in name or "classifier" in name]
    if objective == "frn-pretrain":
        learned = dict(model.head.named_parameters())
        assert (learned["alpha"].item(), learned["beta"].item()) == (0.0, 0.0)
        assert learned["gamma"].item() != 1.0
    assert load_model(tmp_path / "run" / "last.safetensors").config == model.config


def test_episodes_start_from_the_backbone_and_temperature_of_pretraining(tmp_path: Path) -> None:
    quick(tmp_path / "before", pretraining(schedule=Schedule(epochs=2, milestones=())))
    before = load_model(tmp_path / "before" / "best.safetensors")
    fixed = replace(TINY, schedule=replace(TINY.schedule, epochs=1, milestones=(), learning_rate=1e-12))
    quick(tmp_path / "after", fixed, init=before)
    after = load_model(tmp_path / "after" / "best.safetensors")
    for ours, theirs in zip(after.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert all(parameter.requires_grad for parameter in after.head.parameters())


@pytest.mark.parametrize("fixed", [(), ("lambda", "rho")])
def test_a_head_on_a_trained_backbone_starts_with_suitable_values(
    tmp_path: Path, fixed: tuple[Literal["lambda", "rho"], ...]
) -> None:
    quick(tmp_path / "before", pretraining("average-pretrain", schedule=Schedule(epochs=6, milestones=()), **CLEAR))
    still = replace(TINY.schedule, epochs=1, milestones=(), learning_rate=1e-12)
    standing = replace(TINY, fixed=fixed, schedule=still, **CLEAR)
    before = load_model(tmp_path / "before" / "best.safetensors")
    for name, parameter in before.backbone.named_parameters():
        if name.startswith("blocks.3.norm"):  # faint maps
            parameter.data *= 0.1
    events, _ = quick(tmp_path / "after", standing, init=before)
    head = load_model(tmp_path / "after" / "best.safetensors").head
    assert isinstance(head, FRNHead)
    assert head.gamma.item() > 10
    assert [head.alpha.item() == 0, head.beta.item() == 0] == [bool(fixed)] * 2
    losses = [event.loss for event in events if isinstance(event, StepReport)]
    assert np.mean(losses) < 0.7 * np.log(4)  # with gamma = 1 the loss would equal that of guessing
    with pytest.raises(FrnError, match="already contains a run"):
        quick(tmp_path / "after", standing, init=before)


def test_a_preset_may_choose_its_head_after_frn_pretraining(tmp_path: Path) -> None:
    quick(tmp_path / "before", pretraining(schedule=Schedule(epochs=4, milestones=()), **CLEAR))
    before = load_model(tmp_path / "before" / "best.safetensors")
    still = replace(TINY.schedule, epochs=1, milestones=(), learning_rate=1e-12)
    standing = replace(TINY, schedule=still, **CLEAR)
    loss = {}
    for tuned in (False, True):
        preset = replace(standing, pretraining=Pretraining(tune_head_at_start=tuned))
        events, _ = quick(tmp_path / str(tuned), preset, init=before)
        loss[tuned] = np.mean([event.loss for event in events if isinstance(event, StepReport)])
    assert loss[True] < loss[False]
    with pytest.raises(FrnError, match="already contains a run"):
        quick(tmp_path / "True", preset, init=before)


def test_pretraining_reports_missing_settings(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="has 96 images, fewer than a batch of 128"):
        quick(tmp_path / "a", pretraining(batch=128))
    with pytest.raises(FrnError, match="FRN pre-training is for --method frn, not proto"):
        pretraining(method="proto")


@pytest.mark.parametrize(("fixed", "alpha", "beta"), [((), 1, 1), (("lambda",), 0, 1), (("lambda", "rho"), 0, 0)])
def test_frozen_parameters_do_not_change(
    tmp_path: Path, fixed: tuple[Literal["lambda", "rho"], ...], alpha: int, beta: int
) -> None:
    quick(tmp_path / "run", replace(TINY, fixed=fixed))
    head = load_model(tmp_path / "run" / "best.safetensors").head
    assert isinstance(head, FRNHead)
    assert [int(head.alpha.item() != 0), int(head.beta.item() != 0)] == [alpha, beta]


def test_a_preset_refuses_settings_that_conflict() -> None:
    with pytest.raises(FrnError, match="--method frn, not proto"):
        replace(TINY, method="proto", fixed=("rho",))
    assert replace(TINY, transform=EvaluationTransform(size=84)).transform.size == 84
    with pytest.raises(FrnError, match="training crops of 16 pixels and evaluation at 8 do not match"):
        replace(TINY, transform=EvaluationTransform(size=8))
    with pytest.raises(FrnError, match="training crops of 16 pixels and evaluation at 84 do not match"):
        replace(TINY, transform=EvaluationTransform(size=84), objective="frn-pretrain")
    with pytest.raises(FrnError, match="at least one epoch, one episode and one shot"):
        ValidationProtocol(every=0)
    with pytest.raises(FrnError, match="at least two images"):
        Pretraining(batch=1)


def test_accuracy_on_the_test_split_is_logged_but_does_not_select_the_model(tmp_path: Path) -> None:
    """As in the authors' meta-iNat runs: without a validation split, the last weights are the result."""
    events, _ = quick(tmp_path / "run", replace(TINY, validation=replace(TINY.validation, split="test")))
    validations = [event for event in events if isinstance(event, ValidationReport)]
    assert len(validations) == 3
    assert not any(validation.is_best for validation in validations)
    assert_same(tmp_path / "run" / "best.safetensors", tmp_path / "run" / "last.safetensors")
    assert "validation" not in load_model(tmp_path / "run" / "best.safetensors").record


def test_a_diverging_run_gives_a_one_line_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = replace(TINY, schedule=replace(TINY.schedule, learning_rate=1e12))
    told = r"training diverged in epoch \d, step \d+: .*\. Start again with a lower --lr"
    with pytest.raises(FrnError, match=told) as first:
        quick(tmp_path / "run", preset)
    monkeypatch.setattr("frn.ridge.reconstruction.checked", lambda solved, failed, lam: solved * torch.nan)
    with pytest.raises(FrnError, match="the loss is nan"):
        quick(tmp_path / "other", preset)
    assert "\n" not in str(first.value)


@pytest.mark.parametrize(("shot", "r", "d"), [(1, 4, 16), (5, 9, 8)])
def test_paper_mode_is_eq_11_over_ordered_pairs_of_row_normalised_pools(shot: int, r: int, d: int) -> None:
    support = torch.randn(4, shot, r, d).double()
    pool = F.normalize(support.flatten(1, 2), dim=-1)
    expected = sum((pool[i] @ pool[j].mT).square().sum() for i in range(4) for j in range(4) if i != j)
    torch.testing.assert_close(auxiliary_loss(support, "paper"), torch.as_tensor(expected))


@pytest.mark.parametrize(("shot", "r", "d"), [(1, 4, 16), (5, 9, 8)])
def test_reference_mode_divides_by_a_single_norm_and_counts_each_pair_once(shot: int, r: int, d: int) -> None:
    support = torch.randn(4, shot, r, d).double()
    pool = support.flatten(1, 2) / support.norm()
    expected = sum((pool[i] @ pool[j].mT).square().sum() for i in range(4) for j in range(i))
    torch.testing.assert_close(auxiliary_loss(support, "reference"), torch.as_tensor(expected))


def test_off_mode_keeps_only_the_cross_entropy() -> None:
    logits, support = torch.randn(6, 3), torch.randn(3, 1, 4, 8)
    target = torch.tensor([0, 0, 1, 1, 2, 2])
    torch.testing.assert_close(episode_loss(logits, support, 2, "off"), F.cross_entropy(logits, target))
    with_aux = F.cross_entropy(logits, target) + AUX_WEIGHT * auxiliary_loss(support)
    torch.testing.assert_close(episode_loss(logits, support, 2), with_aux)


PRESET = replace(find_preset("demo"), episode=EpisodeShape(way=3, shot=2, queries=4), aux="off")
DRAWN = np.arange(18).reshape(3, 6)


@pytest.mark.parametrize(("method", "whole"), [("frn", False), ("ctx", False), ("dsn", True)])
def test_the_auxiliary_loss_uses_the_vectors_of_the_method(method: str, whole: bool) -> None:
    """SM: DSN uses "the actual (normalized) support points", one whole map per image; FRN uses all locations."""
    model = Model(ModelConfig(backbone="conv4", method=method))
    maps = torch.randn(18, 25, 64, generator=torch.Generator().manual_seed(0))
    loss, logits, target = EpisodicObjective(replace(PRESET, aux="reference"), model, [6] * 3).score(model, maps, DRAWN)
    support = maps.unflatten(0, (3, 6))[:, :2]  # way, shot, r, d
    points = support.flatten(2) if whole else support.flatten(1, 2)
    points = points / points.norm()
    pairs = sum((points[i] @ points[j].T).square().sum() for i in range(3) for j in range(i))
    torch.testing.assert_close(loss, F.cross_entropy(logits, target) + AUX_WEIGHT * pairs)
    assert (pairs - auxiliary_loss(support)).abs() < 1e-6 or whole


def test_classical_pretraining_uses_undivided_maps() -> None:
    """The run in Table 9 uses FRN, whose maps are divided by 25, so a linear classifier would learn slowly."""
    preset = find_preset("mini-imagenet-resnet12-average")
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone=preset.backbone, method=preset.method)).eval()
    images = torch.rand(4, 3, 32, 32)
    seen = []
    objective = PretrainingObjective(replace(preset, pretraining=replace(preset.pretraining, batch=4)), model, [2, 2])
    assert isinstance(objective.head, torch.nn.Linear)
    objective.head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    with torch.no_grad():
        objective.score(model, model.feature_maps(images), np.arange(4))
        unscaled = model.backbone((images - model.mean) / model.std).mean((2, 3))
        scored = model.feature_maps(images).mean(1)
    torch.testing.assert_close(seen[0], unscaled, rtol=1e-4, atol=1e-5)
    assert seen[0].std() > 20 * scored.std()  # sqrt(640) = 25.3; FRN itself is scored on divided maps


def test_methods_of_the_paper_and_on_its_code_have_the_auxiliary_loss_by_default() -> None:
    names = {name for name in HEADS if has_auxiliary_loss(name)}
    assert names == {"frn", "frn-tdm", "dsn", "ctx", "srm", "lccrn"}
