"""The DeepEMD head, compared with linear programs solved by another library in float64."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from frn.errors import FrnError
from frn.heads.deepemd import TEMPERATURE, DeepEMDHead, cross_reference
from tests.frn.heads.oracle import assert_equals, pairwise

needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="needs POT: the extra `emd`")


def maps(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_linear_program(query: Tensor, shots: Tensor) -> Tensor:
    """Compute one logit as in the DeepEMD paper: weights, cosine costs, and a linear program solved by HiGHS.

    The flow is constant in the gradient; its duals are the derivatives of the cost by the weights.
    """
    optimize = pytest.importorskip("scipy.optimize")
    prototype, r = shots[0], len(query)
    supply = torch.stack([(u @ prototype.mean(0)).clamp(min=0) + 1e-3 for u in query])
    demand = torch.stack([(v @ query.mean(0)).clamp(min=0) + 1e-3 for v in prototype])
    limits = torch.cat([supply / supply.sum(), demand / demand.sum()])
    centred = [[u - u.mean() for u in side] for side in (query, prototype)]
    cost = torch.stack([1 - F.cosine_similarity(u, v, dim=0) for u in centred[0] for v in centred[1]])
    sums = np.zeros((2 * r, r * r))
    for i in range(r):
        sums[i, i * r : (i + 1) * r] = 1  # mass that location i sends
        sums[r + i, i::r] = 1  # mass that location i receives
    numbers = [tensor.detach().numpy() for tensor in (cost, limits)]
    program = optimize.linprog(numbers[0], A_eq=sums, b_eq=numbers[1], bounds=(0, None), method="highs-ds")
    flow, duals = torch.from_numpy(program.x), torch.from_numpy(program.eqlin.marginals)
    return TEMPERATURE * (1 - flow @ cost - duals @ (limits - limits.detach()))


@needs_pot
def test_logits_and_gradients_equal_those_of_the_linear_programs() -> None:
    assert_equals(DeepEMDHead(), pairwise(by_linear_program), maps(3, 1, 9, 12), maps(4, 9, 12, seed=1))


def test_locations_that_differ_from_the_other_map_get_little_weight() -> None:
    one, other = torch.tensor([[[1.0, 0], [0, 1], [-1, 0]]]), torch.tensor([[[2.0, 0], [4, 0]]])
    weights = cross_reference(one, other)
    torch.testing.assert_close(weights[0, 0] * 3.003, torch.tensor([3.001, 0.001, 0.001]))


@needs_pot
def test_the_fitted_prototypes_classify_the_supports_better_than_their_mean() -> None:
    support, target = maps(3, 4, 4, 12), torch.arange(3).repeat_interleave(4)
    head = DeepEMDHead(sfc_passes=5, sfc_rate=1)

    def loss(prototypes: Tensor) -> Tensor:
        return F.cross_entropy(head.score(prototypes, support.flatten(0, 1)), target)

    mean = support.mean(1).requires_grad_()
    fitted = head.structured_prototypes(support)
    assert loss(fitted) < 0.8 * loss(mean)
    assert torch.equal(fitted, head.structured_prototypes(support))  # fitting is deterministic
    one_step = DeepEMDHead(sfc_passes=1, sfc_rate=0.5, sfc_batch=12).structured_prototypes(support)
    torch.testing.assert_close(one_step, mean - 0.5 * torch.autograd.grad(loss(mean), mean)[0])


@needs_pot
def test_prototypes_are_also_fitted_if_gradients_are_disabled() -> None:
    support, query = maps(3, 2, 4, 8).float(), maps(2, 4, 8, seed=1).float()
    head = DeepEMDHead(sfc_passes=2)
    expected = head(support, query)
    with torch.inference_mode():
        torch.testing.assert_close(head(support * 1, query * 1), expected)


@needs_pot
def test_several_shots_train_the_backbone_through_the_queries() -> None:
    support, query = maps(2, 2, 4, 8).requires_grad_(), maps(2, 4, 8, seed=1).requires_grad_()
    DeepEMDHead(sfc_passes=1)(support, query)[:, 0].sum().backward()
    assert support.grad is None
    assert query.grad is not None
    assert query.grad.abs().max() > 0


def test_missing_solver_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(FrnError, match=r"needs POT for its linear programs: .* -m pip install"):
        DeepEMDHead()(maps(2, 1, 4, 8), maps(1, 4, 8))
