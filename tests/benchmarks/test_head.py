"""All timed heads compute the same result."""

import importlib.util

import pytest
import torch
from bench.plain import PLAIN, plain_error
from head import OURS, POT, time_heads

from frn.backbones import build_backbone
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead

needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT: the extra `emd`")


def test_the_plain_formulations_equal_the_head() -> None:
    support, query = torch.randn(3, 2, 9, 16), torch.randn(4, 9, 16)
    ours = FRNHead().class_error(support, query)
    for formulation in PLAIN:
        torch.testing.assert_close(plain_error(support, query, formulation), ours, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("shot", [1, 5, 20])
def test_head_is_faster_than_the_paper_formulations_with_many_channels(shot: int, backward: bool) -> None:
    shape = EpisodeShape(way=5, shot=shot, queries=15 if backward else 16)
    milliseconds = time_heads(shape, 640, 25, backward=backward, rounds=3)
    assert all(milliseconds[plain] > milliseconds[OURS] for plain in PLAIN)


@needs_pot
@pytest.mark.parametrize("backward", [False, True])
def test_whole_episodes_and_deepemd_are_timed(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("head.build_backbone", lambda name: build_backbone("conv4"))
    shape = EpisodeShape(way=2, shot=1, queries=1)
    milliseconds = time_heads(shape, 64, 25, whole=True, backward=backward, sfc_passes=1, rounds=1)
    assert set(milliseconds) == {POT, *PLAIN, OURS}
