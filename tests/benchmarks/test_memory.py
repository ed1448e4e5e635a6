"""Peak memory of a training step."""

import sys

import pytest
import torch
from bench.plain import EQ_8, EQ_10
from memory import CONTESTANTS, PUBLISHED, MemoryCase, _head, measure_memory


def test_attention_over_all_pools_uses_its_weights() -> None:
    """CTX stores way x (queries r) x (shot r) weights and their gradients; FRN's closed form stores far less."""
    case = MemoryCase(part="head", r=100, shot=2, d=16, way=8, queries=4)
    attention = 4 * 8 * (8 * 4 * 100) * (2 * 100) / 1e6
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process its peak exactly")
    ctx, ours = (measure_memory(case, name) for name in ("ctx", "frn, torch"))
    assert attention < ctx < 8 * attention
    assert ours < attention


def test_paper_listings_are_compared_with_the_head() -> None:
    support, query = torch.randn(3, 2, 9, 16), torch.randn(4, 9, 16)
    logits = [_head(name, 16)(support, query) for name in (EQ_8, EQ_10, "frn, torch")]
    torch.testing.assert_close(logits[0], logits[2], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits[1], logits[2], rtol=1e-4, atol=1e-4)


def test_episodes_have_the_sizes_of_the_supplement() -> None:
    assert [MemoryCase(part="step", r=25, shot=shot).classes for shot in (1, 5)] == [30, 20]
    assert set(PUBLISHED) < set(CONTESTANTS)
