"""The benchmark that compares FRN with DeepEMD."""

import importlib.util
from collections.abc import Callable, Mapping

import pytest
import torch
from bench.plain import EQ_8, EQ_10
from bench.timing import take_turns
from emd import OURS, POT, Images, Maps, time_emd
from torch import nn

from frn.backbones import build_backbone

SMALL = Maps(d=8, r=4)
needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT: the extra `emd`")


@needs_pot
def test_test_episodes_have_the_sizes_of_the_paper() -> None:
    timing = time_emd("test", 5, inputs=SMALL, rounds=1, sfc_passes=1)
    assert set(timing.milliseconds) == {POT, EQ_8, EQ_10, OURS}
    assert timing.shape.queries == 16
    assert timing.published == {POT: "> 800,000", EQ_10: "88", EQ_8: "79"}


@needs_pot
def test_training_episodes_have_fifteen_queries() -> None:
    timing = time_emd("train", 1, inputs=SMALL, rounds=1, sfc_passes=1)
    assert set(timing.milliseconds) == {POT, EQ_8, EQ_10, OURS}
    assert timing.shape.queries == 15
    assert time_emd("train", 2, inputs=SMALL, rounds=1, sfc_passes=1).published == {}


@needs_pot
def test_whole_episodes_include_resnet12(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole models need gradients for their weights; feature maps alone need none."""
    built = []

    def build(name: str) -> nn.Module:
        built.append(build_backbone(name))
        return built[-1]

    def turns(contestants: Mapping[str, Callable[[], object]], **how: object) -> dict[str, float]:
        contestants[OURS]()
        return dict.fromkeys(contestants, 1.0)

    monkeypatch.setattr("emd.build_backbone", build)
    monkeypatch.setattr("emd.take_turns", turns)
    assert time_emd("train", 1, inputs=Images(size=16), rounds=1, sfc_passes=1).as_json()["whole"] is True
    assert all(weight.grad is not None for weight in built[0].parameters())
    assert time_emd("train", 1, inputs=SMALL, rounds=1, sfc_passes=1).as_json()["whole"] is False
    assert len(built) == 1
    assert Images().network().eval()(torch.rand(1, 3, 84, 84)).shape == (1, 25, 640)


@pytest.mark.slow
@needs_pot
@pytest.mark.parametrize(("phase", "shot"), [("test", 5), ("train", 1)])
def test_the_head_is_faster_than_deepemd(phase: str, shot: int) -> None:
    milliseconds = time_emd(phase, shot, inputs=SMALL, rounds=1, sfc_passes=1).milliseconds
    assert milliseconds[POT] > milliseconds[OURS]


def test_contestants_enable_gradients_if_they_need_them() -> None:
    def learn() -> None:
        torch.ones(1, requires_grad=True).sum().backward()

    take_turns({"learn": learn}, rounds=1, gradients=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        take_turns({"learn": learn}, rounds=1)
