"""The benchmark that compares FRN with DeepEMD."""

import importlib.util

import pytest
import torch
from bench.timing import take_turns
from emd import OURS, POT, Maps, time_emd

SMALL = Maps(d=8, r=4)
needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT: the extra `emd`")


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
