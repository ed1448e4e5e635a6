"""The FRN head."""

import math

import pytest
import torch

from frn.heads.frn import FRNHead
from frn.ridge import reconstruct


def test_logits_are_the_scaled_mean_squared_errors_of_eq_9() -> None:
    head = FRNHead().double()
    with torch.no_grad():
        head.alpha.fill_(0.4)
        head.beta.fill_(-0.3)
        head.gamma.fill_(2.5)
    support, query = torch.randn(3, 2, 4, 16).double(), torch.randn(5, 4, 16).double()
    lam, rho = 8 / 16 * math.exp(0.4) + 1e-6, math.exp(-0.3)
    rebuilt = reconstruct(query.flatten(0, 1), support.flatten(1, 2), lam, rho).unflatten(1, (5, 4))
    expected = -2.5 * (rebuilt - query).square().sum(-1).mean(-1).mT
    torch.testing.assert_close(head(support, query), expected)


def test_copy_of_a_support_is_assigned_to_its_class() -> None:
    support = torch.randn(4, 1, 9, 64)
    assert FRNHead()(support, support[:, 0]).argmax(1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("gamma", "beta", "said"),
    [
        (1.0, 0.0, ""),
        (0.01, -1.9, ""),
        (-0.3, 0.0, "gamma is -0.30: the class"),
        (1.0, -13.4, "rho is 2e-06: no class"),
    ],
)
def test_a_head_reports_unrecoverable_divergence(gamma: float, beta: float, said: str) -> None:
    head = FRNHead()
    with torch.no_grad():
        head.gamma.fill_(gamma)
        head.beta.fill_(beta)
    assert head.divergence_reason().startswith(said)
    assert bool(head.divergence_reason()) == bool(said)
