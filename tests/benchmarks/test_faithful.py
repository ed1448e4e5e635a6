"""Gradients of the closed form, compared with a float64 SVD."""

import pytest
import torch
from faithful import _Projection, differences, episode

from frn.heads.frn import FRNHead
from frn.heads.tdm import TDMFRNHead


@pytest.mark.parametrize("p", [3, 8])
def test_the_derivative_of_the_truth_is_written_out_correctly(p: int) -> None:
    query, pool = (torch.randn(*shape, 5, dtype=torch.float64, requires_grad=True) for shape in ((4,), (2, p)))
    assert torch.autograd.gradcheck(lambda q, s: _Projection.apply(q, s, 0.3), (query, pool))


@pytest.mark.parametrize("alpha", [0.0, -9.0])  # the authors' inverse loses the gradient of the supports at -9
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_logits_and_gradients_are_those_of_the_svd(alpha: float, dtype: torch.dtype, allowed: float) -> None:
    torch.manual_seed(0)
    for head in (FRNHead(), TDMFRNHead(64).eval()):
        frn = head.frn if isinstance(head, TDMFRNHead) else head
        frn.alpha.data.fill_(alpha)
        frn.beta.data.fill_(0.1)
        assert max(differences(head.to(dtype), head, *episode(dtype))) < allowed
