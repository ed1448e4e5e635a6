"""Peak memory of a training step."""

import sys

import pytest
from memory import MemoryCase, measure_memory


def test_attention_over_all_pools_uses_its_weights() -> None:
    """CTX stores way x (queries r) x (shot r) weights and their gradients; FRN's closed form stores far less."""
    case = MemoryCase(part="head", r=100, shot=2, d=16, way=8, queries=4)
    attention = 4 * 8 * (8 * 4 * 100) * (2 * 100) / 1e6
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process its peak exactly")
    ctx, ours = (measure_memory(case, name) for name in ("ctx", "frn, torch"))
    assert attention < ctx < 8 * attention
    assert ours < attention
