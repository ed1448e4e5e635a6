"""Logits and gradients of all heads, compared with float64 and systems that are solved by singular values."""

import pytest
import torch
from faithful import _Projection, _Solution, differences, episode

from frn.heads import HEADS, build_head, networks_for
from frn.heads.vectors.classical import CLASSICAL

OTHERS = {"deepemd": "linear programs", **dict.fromkeys(CLASSICAL, "is fitted to each episode, without a gradient")}
ALLOWED = {torch.float64: 1e-13, torch.float32: 2e-6}
"""Largest relative difference; DeepBDC's square roots lose another digit in float32."""


@pytest.mark.parametrize("p", [3, 8])
def test_the_derivatives_of_the_truth_are_written_out_correctly(p: int) -> None:
    query, pool = (torch.randn(*shape, 5, dtype=torch.float64, requires_grad=True) for shape in ((4,), (2, p)))
    assert torch.autograd.gradcheck(lambda q, s: _Projection.apply(q, s, 0.3), (query, pool))
    system = torch.eye(5, dtype=torch.float64) * 3 + torch.randn(2, 5, 5, dtype=torch.float64)
    assert torch.autograd.gradcheck(_Solution.apply, (system.requires_grad_(), pool.mT))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", sorted(HEADS.keys() - OTHERS.keys()))
def test_logits_and_gradients_are_those_of_the_svd(name: str, dtype: torch.dtype) -> None:
    for alpha in (0.0, -9.0):  # at -9, the authors' inverse loses the gradient of the supports
        torch.manual_seed(0)
        head = build_head(name, 64 * networks_for(name)).eval()
        for parameter, values in head.named_parameters():
            if parameter.endswith(("alpha", "beta")):
                values.data.fill_(alpha if parameter.endswith("alpha") else 0.1)
        maps = [torch.cat([m] * networks_for(name), -1) for m in episode(dtype)]
        allowed = ALLOWED[dtype] * (10 if name == "deepbdc" else 1)
        assert max(differences(head.to(dtype), head, *maps)) < allowed
