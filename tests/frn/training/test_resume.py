"""A stopped or killed run can be resumed with the same result, or gives the reason why it cannot."""

import os
import sys
import tomllib
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch import nn

from frn.data.pixel_cache import ConcatImages
from frn.data.synthetic import draw_classes
from frn.errors import FrnError, FrnWarning
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model
from frn.training.loop import StepReport, train
from frn.training.runs.run import RunFolder, RunSettings, TrainState
from frn.training.setup import build_optimizer, new_model
from tests import processes
from tests.frn.training.tiny import CLEAR, TINY, assert_same, pretraining, quick, sampled

ROOT = Path(__file__).parents[3]
HALF = (0.5, 0.5, 0.5)


def test_a_run_on_two_data_sets_resumes_with_bit_identical_results(tmp_path: Path) -> None:
    joined = ConcatImages((sampled(6, 0), draw_classes(5, 8, size=40, seed=2)))

    def run(out: Path, *, stop_after: int = 10**6, resume: bool = False) -> None:
        taken: list[object] = []
        train(
            TINY,
            joined,
            sampled(5, 1),
            out,
            RunSettings(resume=resume),
            report=taken.append,
            stop=lambda: len(taken) >= stop_after,
        )

    run(tmp_path / "whole")
    run(tmp_path / "cut", stop_after=7)
    run(tmp_path / "cut", resume=True)
    assert_same(tmp_path / "whole" / "best.safetensors", tmp_path / "cut" / "best.safetensors")


PIECES = {
    "sgd": TINY,
    "adam": replace(TINY, schedule=replace(TINY.schedule, optimizer="adam", learning_rate=1e-3)),
    "dummy maps": pretraining(),
    "average": pretraining("average-pretrain"),
    "dropout": replace(TINY, method="bifrn", aux="off"),
    "noise": replace(TINY, method="frn-tdm", **CLEAR),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.nightly] * (place % 2)) for place, kind in enumerate(PIECES)]
)
def test_a_stopped_run_resumes_with_bit_identical_results(tmp_path: Path, kind: str) -> None:
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


def test_resuming_without_the_initial_model_keeps_its_normalisation(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config = ModelConfig(backbone=TINY.backbone, method=TINY.method, last_pool=TINY.last_pool, mean=HALF, std=HALF)
    init = Model(config)
    quick(tmp_path / "whole", init=init)
    left = iter((False, False, False, True))
    quick(tmp_path / "parts", init=init, stop=lambda: next(left))
    quick(tmp_path / "parts", resume=True)
    assert_same(tmp_path / "parts" / "last.safetensors", tmp_path / "whole" / "last.safetensors")
    assert load_model(tmp_path / "parts" / "last.safetensors").config.mean == HALF


KILLED = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
import torch
import torch._dynamo  # which an optimiser imports: once here, not in each fork
from frn.training.loop import train
from frn.training.runs.run import RunSettings
from tests.forks import ended, fork
from tests.frn.training.tiny import TINY, Schedule, ValidationProtocol, sampled, replace

torch.set_num_threads(1)
validation = ValidationProtocol(every=3, episodes=20)
preset = replace(TINY, schedule=Schedule(epochs=12, milestones=(8,)), validation=validation)
images, val_images = sampled(8, 0), sampled(5, 1)

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


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_repeatedly_killed_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Train in forks of a fresh interpreter: this one may have torch threads, for which a fork would wait."""
    processes.run([sys.executable, "-c", KILLED, tmp_path], check=True, cwd=ROOT)
    for name in ("last", "best"):
        assert_same(tmp_path / "killed" / f"{name}.safetensors", tmp_path / "whole" / f"{name}.safetensors")
    assert (tmp_path / "killed" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


def test_validation_recorded_before_a_kill_is_recorded_once(tmp_path: Path) -> None:
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


def test_unknown_fields_in_a_checkpoint_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frn.training.runs.run.asdict", lambda position: {**asdict(position), "rate": 0.3})
    folder, model = RunFolder(tmp_path), new_model(TINY, 0)
    optimizer = build_optimizer(model.parameters(), TINY.schedule)
    folder.save_last(model, nn.Identity(), optimizer, TrainState(epoch=2, best=50.0), {})
    assert folder.load_last(model, nn.Identity(), optimizer, {}) == TrainState(epoch=2, best=50.0)


def test_changed_photos_are_reported_when_a_run_resumes(tmp_path: Path) -> None:
    def go_on(checksum: int, *, resume: bool = True) -> None:
        images = replace(sampled(8, 0), checksum=checksum)
        train(TINY, images, sampled(5, 1), tmp_path / "run", RunSettings(resume=resume), stop=lambda: True)

    go_on(1, resume=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go_on(1)
    with pytest.warns(FrnWarning, match="run: photos have changed since the run last trained"):
        go_on(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go_on(2)


def test_a_run_is_neither_overwritten_nor_resumed_with_different_settings(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match=r"has no last.safetensors to resume from"):
        quick(tmp_path / "run", resume=True)
    quick(tmp_path / "run", stop=lambda: True)
    with pytest.raises(FrnError, match=r"already contains a run. Add --resume"):
        quick(tmp_path / "run")
    with pytest.raises(FrnError, match=r"different settings \(seed was 0 and is 1\)"):
        quick(tmp_path / "run", settings=RunSettings(seed=1), resume=True)
    changed = replace(TINY, episode=replace(TINY.episode, way=3))
    with pytest.raises(FrnError, match=r"episode\.way was 4 and is 3"):
        quick(tmp_path / "run", changed, resume=True)
    with pytest.raises(FrnError, match=r"images was \['8 classes of \d+ images.*and is \['7 classes of"):
        train(TINY, sampled(7, 0), sampled(5, 1), tmp_path / "run", RunSettings(resume=True))
    with pytest.raises(FrnError, match=r"init was random weights and is weights \w{8}"):
        quick(tmp_path / "run", init=new_model(TINY, 0), resume=True)
    quick(tmp_path / "tuned", init=new_model(TINY, 1), stop=lambda: True)
    with pytest.raises(FrnError, match=r"init was weights \w{8} and is weights \w{8}"):
        quick(tmp_path / "tuned", init=new_model(TINY, 2), resume=True)
    assert quick(tmp_path / "tuned", resume=True)[1]  # the checkpoint replaces --init


LONGER = replace(TINY, schedule=TINY.schedule.scaled_to(6))
"""The learning rate of this preset falls after epoch 4, that of `TINY` after epoch 2."""


def test_run_extended_before_its_first_milestone_equals_the_longer_run(tmp_path: Path) -> None:
    """Until the first milestone of the shorter run, both have the same learning rate and are identical."""
    quick(tmp_path / "whole", LONGER)
    steps = 0

    def after_an_epoch() -> bool:
        nonlocal steps
        steps += 1
        return steps == 7  # each epoch has six steps

    settings = RunSettings(command="frn train tiny")
    quick(tmp_path / "run", stop=after_an_epoch, settings=settings)
    quick(tmp_path / "run", LONGER, settings=replace(settings, command="frn train tiny --epochs 6"), resume=True)
    for name in ("last", "best"):
        assert_same(tmp_path / "run" / f"{name}.safetensors", tmp_path / "whole" / f"{name}.safetensors")
    told = (tmp_path / "run" / "config.toml").read_text()
    assert told.startswith("# Written by frn\n# frn train tiny\n# frn train tiny --epochs 6\n")
    assert tomllib.loads(told)["schedule"] == {**tomllib.loads(told)["schedule"], "epochs": 6, "milestones": [4]}


def test_a_finished_run_continues_at_the_rate_of_the_longer_schedule(tmp_path: Path) -> None:
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
