"""The closed form, compared with plain formulas and float64 SVD; `test_authors_numbers.py` has recorded arrays."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from frn.ridge.reconstruction import (
    SingularError,
    class_error,
    location_error,
    moment_error,
    reconstruct,
    residual_operator,
    ridge_factor,
    squared_operator,
    whiten,
    whitened_error,
)
from tests.frn.ridge.families import FAMILIES, family


def features(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


class SvdTruth:
    """Compute location errors (way, n) in the eigenbasis of each class, in float64."""

    def __init__(self, query: Tensor, pool: Tensor) -> None:
        _, sigma, v = torch.linalg.svd(pool.double(), full_matrices=False)
        self.eigenvalues = sigma.square()  # way, m
        self.energies = (query.double() @ v.mT).square()  # way, n, m
        self.length = query.double().square().sum(-1)

    def error(self, lam: float, rho: float) -> Tensor:
        kept = self.eigenvalues / (self.eigenvalues + lam)
        weight = rho * kept * (2 - rho * kept)
        return self.length - (self.energies @ weight[..., None])[..., 0]


@pytest.mark.parametrize("rho", [0.3, 1.0, 1.899, 1.9, 2.0, 2.5, 20.0])
@pytest.mark.parametrize("p", [5, 30])
def test_location_error_is_the_distance_to_the_reconstruction(p: int, rho: float) -> None:
    query, pool = features(7, 12), features(3, p, 12)
    distance = (reconstruct(query, pool, 0.3, rho) - query).square().sum(-1)
    torch.testing.assert_close(location_error(query, pool, 0.3, rho), distance, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("queries", "r", "p", "d"), [(2, 1, 3, 12), (40, 25, 25, 8), (40, 25, 4, 8), (3, 4, 9, 16)])
def test_class_error_is_the_mean_over_locations_in_every_formulation(queries: int, r: int, p: int, d: int) -> None:
    query, pool = features(queries, r, d), features(6, p, d)
    mean = location_error(query.flatten(0, 1), pool, 0.3, 1.4).unflatten(1, (queries, r)).mean(-1).mT
    torch.testing.assert_close(class_error(query, pool, 0.3, 1.4), mean, rtol=1e-11, atol=1e-11)


def test_the_order_of_locations_and_supports_does_not_matter() -> None:
    query, pool = features(4, 9, 16), features(3, 18, 16)
    shuffled = class_error(query[:, torch.randperm(9)], pool[:, torch.randperm(18)], 0.3, 1.4)
    torch.testing.assert_close(class_error(query, pool, 0.3, 1.4), shuffled)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("d", "shot"), [(64, 1), (64, 5), (64, 20), (640, 1), (640, 5), (640, 20)])
def test_float32_stays_within_5e_6_of_float64_svd(name: str, d: int, shot: int) -> None:
    r, way = 25, 2 if d == 64 else 1
    query, pool = family(name, way, shot, r, d)
    truth = SvdTruth(query, pool)
    for alpha in (-3.0, 3.0):
        for beta in (-3.0, 0.6, 0.7, 3.0):  # rho 1.82 and 2.01 lie on either side of 2
            lam, rho = shot * r / d * math.exp(alpha), math.exp(beta)
            expected = truth.error(lam, rho)
            unit = truth.length.mean() * max(1.0, (rho - 1) ** 2)
            by_location = location_error(query, pool, lam, rho).double()
            assert ((by_location - expected).abs().max() / unit).item() <= 5e-6
            by_class = class_error(query.view(2, r, d), pool, lam, rho).double()
            mean = expected.unflatten(1, (2, r)).mean(-1).mT
            assert ((by_class - mean).abs().max() / unit).item() <= 5e-6


@pytest.mark.parametrize("beta", [-0.2, math.log(2)])
@pytest.mark.parametrize("p", [4, 9])
def test_gradients_equal_the_formula(p: int, beta: float) -> None:
    query, pool = features(3, 6).requires_grad_(), features(2, p, 6).requires_grad_()
    lam, rho = torch.tensor([math.exp(0.3), math.exp(beta)], dtype=torch.float64)
    inputs = (query, pool, lam.requires_grad_(), rho.requires_grad_())
    assert torch.autograd.gradcheck(location_error, inputs)
    assert torch.autograd.gradcheck(reconstruct, inputs)
    maps = query.detach().view(1, 3, 6).repeat(4, 1, 1).requires_grad_()
    assert torch.autograd.gradcheck(class_error, (maps, *inputs[1:]))


@pytest.mark.parametrize("beta", [-0.2, math.log(2), 3.0])
@pytest.mark.parametrize("p", [4, 6, 9])
def test_gradient_of_the_moments_equals_the_formula(p: int, beta: float) -> None:
    query, pool = features(4, 3, 6).requires_grad_(), features(2, p, 6).requires_grad_()
    lam, rho = torch.tensor([math.exp(0.3), math.exp(beta)], dtype=torch.float64)
    assert torch.autograd.gradcheck(moment_error, (query, pool, lam.requires_grad_(), rho.requires_grad_()))


def maps_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return the errors of maps (queries, way), averaged over their locations."""
    return whitened_error(query.flatten(0, 1), pool, lam, rho).unflatten(1, query.shape[:2]).mean(-1).mT


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("shot", [1, 5, 20, 30])
def test_float32_gradients_are_close_to_those_in_float64(monkeypatch: pytest.MonkeyPatch, name: str, shot: int) -> None:
    """Scoring runs in chunks of a single map, and lambda is as small as in real use.

    The worst case is lambda's gradient of "low rank" in the whitened form, wrong by 1.01e-4. The paper's Eq. 8 in
    float32 with `.inverse()` is wrong by 600 times the true gradient there.
    """
    monkeypatch.setattr("frn.ridge.reconstruction.BLOCK", 1)
    monkeypatch.setattr("frn.ridge.reconstruction.CACHED", 20)
    r, d = 25, 160
    query, pool = family(name, 2, shot, r, d)
    gradients: dict[torch.dtype, list[Tensor]] = {torch.float64: [], torch.float32: []}
    for dtype, found in gradients.items():
        lam, rho = torch.tensor([shot * r / d * math.exp(-2.0), 1.3], dtype=torch.float64)
        inputs = [query.view(2, r, d).to(dtype), pool.to(dtype), lam, rho]
        for value in inputs:
            value.requires_grad_()
        for error in (moment_error(*inputs), *([] if shot * r >= d else [maps_error(*inputs)])):
            found += torch.autograd.grad(error[0, 0] - 0.5 * error[1, 1] + error[0, 1], inputs)
    for exact, single in zip(*gradients.values(), strict=True):
        assert (single - exact).norm() <= 1.5e-4 * exact.norm() + 1e-12


@pytest.mark.parametrize("function", [reconstruct, location_error])
@pytest.mark.parametrize("lam", [0.0, -1.0, -50.0])
def test_lambda_must_be_positive(function: Callable[..., Tensor], lam: float) -> None:
    """With -1 the errors looked plausible, but their gradients were NaN."""
    with pytest.raises(ValueError, match=f"lambda is {lam}, but must be positive"):
        function(features(2, 6), features(3, 4, 6), lam, 1.0)


def test_channels_must_agree() -> None:
    with pytest.raises(ValueError, match="query has 5 channels but pool has 6"):
        reconstruct(features(2, 5), features(3, 4, 6), 0.3, 1.0)
    for queries in (1, 300):  # location by location, and by second moments
        with pytest.raises(ValueError, match="query has 5 channels but pool has 6"):
            class_error(features(queries, 9, 5), features(2, 36, 6), 1.0, 1.0)


@pytest.mark.parametrize("queries", [1, 300])  # location by location, and by second moments
def test_the_closed_form_is_float32_inside_and_outside_autocast(queries: int) -> None:
    query, pool = features(queries, 9, 6).float(), features(2, 36, 6).float()
    expected = class_error(query.double(), pool.double(), 0.3, 1.0)
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            found = class_error(query, pool, 0.3, 1.0)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 * float(query.square().sum(-1).mean()))


@pytest.mark.parametrize("rho", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("block", [3, 1024])
def test_whitened_error_is_the_true_distance(monkeypatch: pytest.MonkeyPatch, rho: float, block: int) -> None:
    monkeypatch.setattr("frn.ridge.reconstruction.CACHED", block)
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(7, 12, generator=generator, dtype=torch.float64)
    pool = torch.randn(3, 5, 12, generator=generator, dtype=torch.float64)
    lam = torch.tensor(0.3, dtype=torch.float64)
    system = pool @ pool.mT + lam * torch.eye(5, dtype=pool.dtype)
    rebuilt = rho * query @ pool.mT @ torch.linalg.inv(system) @ pool  # Eq. 8
    expected = (rebuilt - query).square().sum(-1)
    found = whitened_error(query, pool, lam, torch.tensor(rho, dtype=torch.float64))
    torch.testing.assert_close(found, expected)


LAM, RHO = torch.tensor(0.7, dtype=torch.float64), torch.tensor(1.4, dtype=torch.float64)


def pools(p: int, d: int, way: int = 3) -> Tensor:
    return torch.randn(way, p, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_first_singular_class_is_named_with_its_lambda() -> None:
    pool = pools(2, 6, way=4)
    pool[1, 0, 0] = pool[3, 0, 0] = torch.nan
    with pytest.raises(SingularError) as caught:
        whiten(pool, LAM)
    assert str(caught.value) == (
        "the ridge system of class 1 (of 4; 2 affected) is not positive definite with lambda = 0.7: features must be "
        "finite and lambda positive"
    )
    negative = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))[None]
    with pytest.raises(SingularError):
        residual_operator(negative, LAM, RHO)
    with pytest.raises(SingularError):
        ridge_factor(pool, LAM)


def test_singular_classes_become_nan_under_a_transform() -> None:
    pool = pools(2, 6)
    pool[1, 0, 0] = torch.nan
    found = torch.vmap(lambda each: squared_operator(each[None], LAM, RHO)[0])(pool)
    assert found.isnan().flatten(1).all(1).tolist() == [False, True, False]
    torch.testing.assert_close(found[[0, 2]], squared_operator(pool[[0, 2]], LAM, RHO))
