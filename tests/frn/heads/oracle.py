"""Comparison of a head with a plain formula, in float64 and including gradients."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Plain = Callable[[Tensor, Tensor], Tensor]


def assert_equals(head: nn.Module, plain: Plain, support: Tensor, query: Tensor) -> None:
    """Compare logits (queries, way) and their gradients for both maps and for every parameter."""
    generator = torch.Generator().manual_seed(4)
    support, query = (maps.double().requires_grad_() for maps in (support, query))
    leaves = [support, query, *head.double().parameters()]
    slope = torch.randn(len(query), len(support), generator=generator, dtype=torch.float64)
    results = [
        (logits, *torch.autograd.grad((logits * slope).sum(), leaves))
        for logits in (head(support, query), plain(support, query))
    ]
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


def pairwise(score: Plain) -> Plain:
    """Return logits of a function that scores one query map (r, d) against the supports (shot, r, d) of one class."""
    return lambda support, query: torch.stack([torch.stack([score(q, s) for s in support]) for q in query])
