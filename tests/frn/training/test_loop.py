"""Training: it learns, it stops, it goes on."""

import functools
import json
import os
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import safetensors
import torch
from safetensors.torch import save_file
from torch import nn

from frn.data.augmentation import Augmentation
from frn.data.cache import StoredImages
from frn.data.concat import ConcatImages
from frn.data.synthetic import draw_classes
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.heads import build_head
from frn.heads.frn import FRNHead
from frn.images import EvaluationTransform
from frn.model import Model, load_model
from frn.model_file import ModelConfig
from frn.training.loop import StepReport, ValidationReport, train
from frn.training.objectives import EpisodicObjective
from frn.training.presets import Preset, Schedule, demo
from frn.training.presets.preset import Pretraining, ValidationProtocol
from frn.training.presets.record import published_fields
from frn.training.run import RunSettings
from frn.training.run_folder import Position, RunFolder
from frn.training.setup import build_optimizer, new_model
from tests import processes

ROOT = Path(__file__).parents[3]
Objective = Literal["frn-pretrain", "average-pretrain"]

TINY = replace(
    demo(),
    augmentation=Augmentation(size=16, crop="padded", padding=2),
    transform=EvaluationTransform(size=16),
    episode=EpisodeShape(way=4, shot=2, queries=2),
    schedule=Schedule(epochs=3, milestones=(2,)),
    validation=ValidationProtocol(every=1, episodes=20),
)


CLEAR: dict[str, Any] = {"augmentation": demo().augmentation, "transform": demo().transform}
"""Of a preset whose images have the demo's 32 pixels, where a few steps learn."""


@functools.cache
def drawn(classes: int, seed: int, side: int = 16) -> StoredImages:
    return draw_classes(classes, 12, size=side, seed=seed)


def quick(
    out: Path, preset: Preset = TINY, *, settings: RunSettings | None = None, resume: bool = False, **options: Any
) -> tuple[list[StepReport | ValidationReport], bool]:
    events: list[StepReport | ValidationReport] = []
    settings = replace(settings or RunSettings(), resume=resume)
    side = preset.transform.size
    ended = train(preset, drawn(8, 0, side), drawn(5, 1, side), out, settings, report=events.append, **options)
    return events, ended.finished


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_model(path).state_dict()


def assert_same(a: Path, b: Path) -> None:
    ours, theirs = weights(a), weights(b)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs), "weights differ"


def test_a_run_on_two_data_sets_goes_on_bit_for_bit(tmp_path: Path) -> None:
    joined = ConcatImages((drawn(6, 0), draw_classes(5, 8, size=40, seed=2)))

    def run(out: Path, *, stop_after: int = 10**6, resume: bool = False) -> None:
        taken: list[object] = []
        train(
            TINY,
            joined,
            drawn(5, 1),
            out,
            RunSettings(resume=resume),
            report=taken.append,
            stop=lambda: len(taken) >= stop_after,
        )

    run(tmp_path / "whole")
    run(tmp_path / "cut", stop_after=7)
    run(tmp_path / "cut", resume=True)
    assert_same(tmp_path / "whole" / "best.safetensors", tmp_path / "cut" / "best.safetensors")


def test_an_episode_can_be_learned(tmp_path: Path) -> None:
    """Loss falls well below chance on a handful of classes."""
    torch.set_num_threads(1)
    validation = ValidationProtocol(every=14, episodes=20)
    preset = replace(TINY, schedule=Schedule(epochs=14, milestones=(10,)), validation=validation)
    events, finished = quick(tmp_path / "run", preset)
    losses = [event.loss for event in events if isinstance(event, StepReport)]
    assert finished
    assert np.mean(losses[-10:]) < 0.75 * np.mean(losses[:5])


def test_a_run_leaves_a_model_metrics_and_the_command_that_reproduces_it(tmp_path: Path) -> None:
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
    assert (tmp_path / "run" / "config.toml").read_text().startswith("# frn train tiny\n")
    assert load_model(tmp_path / "run" / "last.safetensors").config == model.config


def pretraining(objective: Objective = "frn-pretrain", *, every: int = 1, batch: int = 32, **changes: Any) -> Preset:
    changes.setdefault("method", "frn" if objective == "frn-pretrain" else "proto")
    validation = ValidationProtocol(every=every, episodes=20, shot=1)
    return replace(TINY, objective=objective, validation=validation, pretraining=Pretraining(batch=batch), **changes)


PIECES = {
    "sgd": TINY,
    "adam": replace(TINY, schedule=replace(TINY.schedule, optimizer="adam", learning_rate=1e-3)),
    "dummy maps": pretraining(),
    "average": pretraining("average-pretrain"),
    "a head beside": replace(TINY, aux_heads=("proto",)),
    "dropout": replace(TINY, method="bifrn", aux="off"),
    "noise": replace(TINY, method="frn-tdm", **CLEAR),
    "fine-tuning": replace(
        TINY,
        classical=0.5,
        fixed_statistics=True,
        schedule=replace(TINY.schedule, learning_rate=1e-3),
        validation=replace(TINY.validation, start=True, shares=(0.5,)),
    ),
}


@pytest.mark.parametrize("kind", PIECES)
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    torch.set_num_threads(1)
    preset = PIECES[kind]
    quick(tmp_path / "whole", preset)
    finished, stops = False, iter((1, 4, 2, 1000))
    while not finished:
        left = next(stops)

        def stop() -> bool:
            nonlocal left
            left -= 1
            return left <= 0

        resume = (tmp_path / "pieces" / "last.safetensors").exists()
        _, finished = quick(tmp_path / "pieces", preset, stop=stop, resume=resume)
    for name in ("last", "best"):
        assert_same(tmp_path / "pieces" / f"{name}.safetensors", tmp_path / "whole" / f"{name}.safetensors")
    assert (tmp_path / "pieces" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def write_as_version_0_1_0(last: Path, preset: Preset) -> None:
    """Give a checkpoint the names that the first version had for a preset's fields and for its auxiliary heads."""
    with safetensors.safe_open(last, framework="pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    record = json.loads(metadata["record"])
    run = record["training"]["run"]
    record["training"]["run"] = {key: run[key] for key in ("seed", "precision", "images")} | published_fields(preset)
    old = {name.replace("stage/aux_heads.", "stage/beside."): tensor for name, tensor in tensors.items()}
    save_file(old, last, {**metadata, "record": json.dumps(record)})


def test_a_run_of_the_first_version_goes_on_and_its_settings_are_compared(tmp_path: Path) -> None:
    preset = replace(TINY, aux_heads=("proto",))
    quick(tmp_path / "whole", preset)
    left = iter((False, False, False, True))
    quick(tmp_path / "old", preset, stop=lambda: next(left))
    write_as_version_0_1_0(tmp_path / "old" / "last.safetensors", preset)
    for changed, told in (
        (TINY, r"aux_heads was \['proto'\] and is \[\]"),
        (replace(preset, validation=replace(preset.validation, shot=1)), "validation.shot was None and is 1"),
        (replace(preset, data=replace(preset.data, max_side=64)), "data.max_side was 32 and is 64"),
        (replace(preset, pretraining=Pretraining(init_from="x")), "pretraining.init_from was None and is x"),
    ):
        with pytest.raises(FrnError, match=told):
            quick(tmp_path / "old", changed, resume=True)
    quick(tmp_path / "old", preset, resume=True)
    for name in ("last", "best"):
        assert_same(tmp_path / "old" / f"{name}.safetensors", tmp_path / "whole" / f"{name}.safetensors")


KILLED = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
import torch
import torch._dynamo  # which an optimiser imports: once here, not in each fork
from frn.training.loop import train
from frn.training.run import RunSettings
from tests.forks import ended, fork
from tests.frn.training.test_loop import TINY, Schedule, ValidationProtocol, drawn, replace

torch.set_num_threads(1)
validation = ValidationProtocol(every=3, episodes=20)
preset = replace(TINY, schedule=Schedule(epochs=12, milestones=(8,)), validation=validation)
images, val_images = drawn(8, 0), drawn(5, 1)

def run(name, kill_after=None):
    out = Path(sys.argv[1]) / name
    settings = RunSettings(save_every=0.02, resume=(out / "last.safetensors").exists())
    process = fork(lambda: train(preset, images, val_images, out, settings))
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(process, signal.SIGKILL)
    return ended(process)

began = time.monotonic()
assert run("whole") == 0
whole = time.monotonic() - began
waits = np.random.default_rng(0).uniform(0.1, 0.4, 4) * whole
assert [run("killed", wait) for wait in waits].count(-signal.SIGKILL) > 1
assert run("killed") == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_run_killed_again_and_again_ends_with_the_same_weights(tmp_path: Path) -> None:
    """In forks of a fresh interpreter: this one may have threads of torch's, which a fork would wait for."""
    processes.run([sys.executable, "-c", KILLED, tmp_path], check=True, cwd=ROOT)
    for name in ("last", "best"):
        assert_same(tmp_path / "killed" / f"{name}.safetensors", tmp_path / "whole" / f"{name}.safetensors")
    assert (tmp_path / "killed" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_a_validation_that_was_noted_just_before_a_kill_is_noted_once(tmp_path: Path) -> None:
    quick(tmp_path / "whole")
    whole = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines(keepends=True)
    steps = next(number for number, line in enumerate(whole) if "val_accuracy" in line)
    calls = iter(range(1, steps + 1))
    quick(tmp_path / "killed", stop=lambda: next(calls) == steps)  # saved at an epoch's end, before its validation
    metrics = tmp_path / "killed" / "metrics.jsonl"
    assert metrics.read_text() == "".join(whole[:steps])
    metrics.write_text("".join(whole[: steps + 1]))
    quick(tmp_path / "killed", resume=True)
    assert metrics.read_text() == "".join(whole)


def test_what_another_version_notes_of_a_runs_place_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frn.training.run_folder.asdict", lambda position: {**asdict(position), "rate": 0.3})
    folder, model = RunFolder(tmp_path), new_model(TINY, 0)
    optimizer = build_optimizer(model.parameters(), TINY.schedule)
    folder.save_last(model, nn.Identity(), optimizer, Position(epoch=2, best=50.0), {})
    assert folder.load_last(model, nn.Identity(), optimizer, {}) == Position(epoch=2, best=50.0)


def test_a_run_is_not_overwritten_and_not_resumed_with_other_settings(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match=r"has no last.safetensors to resume from"):
        quick(tmp_path / "run", resume=True)
    quick(tmp_path / "run", stop=lambda: True)
    with pytest.raises(FrnError, match=r"already holds a run. Add --resume"):
        quick(tmp_path / "run")
    with pytest.raises(FrnError, match=r"other settings \(seed was 0 and is 1\)"):
        quick(tmp_path / "run", settings=RunSettings(seed=1), resume=True)
    changed = replace(TINY, episode=replace(TINY.episode, way=3))
    with pytest.raises(FrnError, match=r"episode\.way was 4 and is 3"):
        quick(tmp_path / "run", changed, resume=True)
    with pytest.raises(FrnError, match=r"images was \['8 classes of \d+ images.*and is \['7 classes of"):
        train(TINY, drawn(7, 0), drawn(5, 1), tmp_path / "run", RunSettings(resume=True))


LONGER = replace(TINY, schedule=TINY.schedule.scaled_to(6))
"""Its rate falls after epoch 4, where `TINY`'s falls after 2."""


def test_a_run_that_is_lengthened_in_time_is_the_longer_run(tmp_path: Path) -> None:
    """Up to the shorter run's first milestone both have the same rate: then nothing tells them apart."""
    quick(tmp_path / "whole", LONGER)
    steps = 0

    def after_an_epoch() -> bool:
        nonlocal steps
        steps += 1
        return steps == 7  # of six an epoch

    settings = RunSettings(command="frn train tiny")
    quick(tmp_path / "run", stop=after_an_epoch, settings=settings)
    quick(tmp_path / "run", LONGER, settings=replace(settings, command="frn train tiny --epochs 6"), resume=True)
    for name in ("last", "best"):
        assert_same(tmp_path / "run" / f"{name}.safetensors", tmp_path / "whole" / f"{name}.safetensors")
    told = (tmp_path / "run" / "config.toml").read_text()
    assert told.startswith("# frn train tiny\n# frn train tiny --epochs 6\n")
    assert tomllib.loads(told)["schedule"] == {**tomllib.loads(told)["schedule"], "epochs": 6, "milestones": [4]}


def test_a_finished_run_goes_on_at_the_rate_of_the_longer_schedule(tmp_path: Path) -> None:
    quick(tmp_path / "run")
    events, finished = quick(tmp_path / "run", LONGER, resume=True)
    assert finished
    rates = {event.epoch: event.learned["learning_rate"] for event in events if isinstance(event, StepReport)}
    assert rates == pytest.approx({4: 0.1, 5: 0.01, 6: 0.01})
    with pytest.raises(FrnError, match=r"schedule\.epochs was 6 and is 3"):
        quick(tmp_path / "run", resume=True)
    other = replace(LONGER, schedule=replace(LONGER.schedule.scaled_to(9), learning_rate=0.3))
    with pytest.raises(FrnError, match=r"schedule\.learning_rate was 0\.1 and is 0\.3"):
        quick(tmp_path / "run", other, resume=True)


def test_a_model_can_be_the_start_of_another(tmp_path: Path) -> None:
    quick(tmp_path / "first")
    start = load_model(tmp_path / "first" / "best.safetensors")
    frozen = replace(TINY, schedule=Schedule(epochs=1, milestones=(), learning_rate=1e-12, weight_decay=0.0))
    quick(tmp_path / "second", frozen, init=start)
    second = load_model(tmp_path / "second" / "best.safetensors")
    for ours, theirs in zip(second.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    with pytest.raises(FrnError, match="--init is a conv4 model, but the run trains resnet12"):
        quick(tmp_path / "third", replace(TINY, backbone="resnet12"), init=start)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FrnError, match="cannot be written"):
        quick(tmp_path / "run")


def test_classes_too_small_are_named_before_anything_is_written(tmp_path: Path) -> None:
    preset = replace(TINY, episode=EpisodeShape(way=4, shot=2, queries=30))
    with pytest.raises(
        FrnError, match=r"class 'moth 000' has 12 images, but a 2-shot episode with 30 queries needs 32"
    ):
        quick(tmp_path / "run", preset)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("objective", ["frn-pretrain", "average-pretrain"])
def test_pretraining_learns_the_classes_and_leaves_a_plain_model(tmp_path: Path, objective: Objective) -> None:
    torch.set_num_threads(1)
    preset = pretraining(objective, schedule=Schedule(epochs=25, milestones=(20,)), every=25, **CLEAR)
    events, finished = quick(tmp_path / "run", preset)
    losses = [event.loss for event in events if isinstance(event, StepReport)]
    assert finished
    assert losses[0] > 1.5  # eight classes: chance is log 8 = 2.1
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    model = load_model(tmp_path / "run" / "best.safetensors")
    assert not [name for name in model.state_dict() if "dummy" in name or "classifier" in name]
    if objective == "frn-pretrain":
        learned = dict(model.head.named_parameters())
        assert (learned["alpha"].item(), learned["beta"].item()) == (0.0, 0.0)
        assert learned["gamma"].item() != 1.0
    assert load_model(tmp_path / "run" / "last.safetensors").config == model.config


def test_episodes_go_on_from_pretraining_with_its_backbone_and_temperature(tmp_path: Path) -> None:
    quick(tmp_path / "before", pretraining(schedule=Schedule(epochs=2, milestones=())))
    before = load_model(tmp_path / "before" / "best.safetensors")
    fixed = replace(TINY, schedule=replace(TINY.schedule, epochs=1, milestones=(), learning_rate=1e-12))
    quick(tmp_path / "after", fixed, init=before)
    after = load_model(tmp_path / "after" / "best.safetensors")
    for ours, theirs in zip(after.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert all(parameter.requires_grad for parameter in after.head.parameters())


@pytest.mark.parametrize("fixed", [(), ("lambda", "rho")])
def test_a_head_that_meets_a_trained_backbone_begins_with_what_suits_it(
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
    assert np.mean(losses) < 0.7 * np.log(4)  # with gamma = 1 it is that of guessing
    with pytest.raises(FrnError, match="already holds a run"):
        quick(tmp_path / "after", standing, init=before)


def test_a_preset_can_have_its_head_chosen_after_frn_pretraining_too(tmp_path: Path) -> None:
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
    with pytest.raises(FrnError, match="already holds a run"):
        quick(tmp_path / "True", preset, init=before)


def test_a_head_beside_the_models_own_learns_from_the_same_maps_and_is_left_behind(tmp_path: Path) -> None:
    shape, drawn = EpisodeShape(way=3, shot=4, queries=5), np.arange(27).reshape(3, 9)
    maps = torch.randn(27, 16, 256, generator=torch.Generator().manual_seed(0))
    config = ModelConfig(backbone="resnet12-small", method="frn", last_pool=False, transform=TINY.transform)
    ours, proto = Model(config), Model(replace(config, method="proto"))
    alone = [
        EpisodicObjective(shape, "off").score(model, m, drawn)[0] for model, m in ((ours, maps / 16), (proto, maps))
    ]
    both = EpisodicObjective(shape, "off", [build_head("proto", 256)]).score(ours, maps / 16, drawn)[0]
    torch.testing.assert_close(both, (alone[0] + alone[1]) / 2)

    quick(tmp_path / "run", replace(TINY, aux_heads=("proto",)))
    model = load_model(tmp_path / "run" / "best.safetensors")
    assert {name for name, _ in model.head.named_parameters()} == {"alpha", "beta", "gamma"}


def test_pretraining_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="has 96 images, fewer than a batch of 128"):
        quick(tmp_path / "a", pretraining(batch=128))
    with pytest.raises(FrnError, match="FRN pre-training is for --method frn, not proto"):
        pretraining(method="proto")


@pytest.mark.parametrize(("fixed", "alpha", "beta"), [((), 1, 1), (("lambda",), 0, 1), (("lambda", "rho"), 0, 0)])
def test_what_is_fixed_stays_where_it_starts(
    tmp_path: Path, fixed: tuple[Literal["lambda", "rho"], ...], alpha: int, beta: int
) -> None:
    quick(tmp_path / "run", replace(TINY, fixed=fixed))
    head = load_model(tmp_path / "run" / "best.safetensors").head
    assert isinstance(head, FRNHead)
    assert [int(head.alpha.item() != 0), int(head.beta.item() != 0)] == [alpha, beta]


def test_a_preset_refuses_what_does_not_fit_together() -> None:
    with pytest.raises(FrnError, match="--method frn, not proto"):
        replace(TINY, method="proto", fixed=("rho",))
    assert replace(TINY, transform=EvaluationTransform(size=84)).transform.size == 84
    with pytest.raises(FrnError, match="training crops of 16 pixels and evaluation at 8 do not fit"):
        replace(TINY, transform=EvaluationTransform(size=8))
    with pytest.raises(FrnError, match="training crops of 16 pixels and evaluation at 84 do not fit"):
        replace(TINY, transform=EvaluationTransform(size=84), objective="frn-pretrain")
    with pytest.raises(FrnError, match="at least one epoch, one episode and one shot"):
        ValidationProtocol(every=0)
    with pytest.raises(FrnError, match="shares of the way from the start are between 0 and 1"):
        ValidationProtocol(shares=(0.5, 1.0))
    with pytest.raises(FrnError, match=r"a loss has a weight of 0 or more, not -0\.5"):
        replace(TINY, classical=-0.5)
    with pytest.raises(FrnError, match="at least two images"):
        Pretraining(batch=1)


def test_accuracy_on_the_test_split_is_logged_but_chooses_nothing(tmp_path: Path) -> None:
    """The authors' meta-iNat runs: no validation split, so the last weights are the result."""
    events, _ = quick(tmp_path / "run", replace(TINY, validation=replace(TINY.validation, split="test")))
    validations = [event for event in events if isinstance(event, ValidationReport)]
    assert len(validations) == 3
    assert not any(validation.is_best for validation in validations)
    assert_same(tmp_path / "run" / "best.safetensors", tmp_path / "run" / "last.safetensors")
    assert "validation" not in load_model(tmp_path / "run" / "best.safetensors").record
