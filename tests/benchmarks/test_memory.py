"""Peak memory of a training step."""

import sys

import pytest
from memory import measure_memory

from frn.episodes import EpisodeShape


def test_attention_over_all_pools_uses_its_weights() -> None:
    """CTX stores way x (queries r) x (shot r) weights and their gradients; FRN's closed form stores far less."""
    shape = EpisodeShape(way=8, shot=2, queries=4)
    attention = 4 * 8 * (8 * 4 * 100) * (2 * 100) / 1e6
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process its peak exactly")
    ctx, ours = (measure_memory(name, shape, 100, 16, whole=False, device="cpu") for name in ("ctx", "frn, torch"))
    assert attention < ctx < 8 * attention
    assert ours < attention
