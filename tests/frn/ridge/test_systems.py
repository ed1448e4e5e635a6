"""The class side of the closed form, compared with plain inverses in float64."""

import pytest
import torch
from torch import Tensor

from frn.ridge.reconstruction import (
    SingularError,
    gram,
    identity_like,
    residual_operator,
    ridge_factor,
    squared_operator,
    whiten,
)

LAM, RHO = torch.tensor(0.7, dtype=torch.float64), torch.tensor(1.4, dtype=torch.float64)


def pools(p: int, d: int, way: int = 3) -> Tensor:
    return torch.randn(way, p, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def operator(pool: Tensor) -> Tensor:
    """Return I - rho (S^T S + lam I)^-1 S^T S, as in the paper."""
    one = torch.eye(pool.shape[-1], dtype=pool.dtype)
    system = pool.mT @ pool
    return one - RHO * torch.linalg.inv(system + LAM * one) @ system


SHAPES = [(2, 6), (5, 6), (6, 6), (9, 6)]


@pytest.mark.parametrize(("p", "d"), SHAPES)
def test_residual_operator_leaves_what_is_not_reconstructed(p: int, d: int) -> None:
    pool = pools(p, d)
    torch.testing.assert_close(gram(pool), pool.mT @ pool)
    torch.testing.assert_close(residual_operator(gram(pool), LAM, RHO), operator(pool))
    torch.testing.assert_close(squared_operator(pool, LAM, RHO), operator(pool) @ operator(pool))
    chunk = torch.stack([pool, 2 * pool])  # of two episodes
    torch.testing.assert_close(residual_operator(gram(chunk), LAM, RHO), operator(chunk))


@pytest.mark.parametrize(("p", "d"), SHAPES)
def test_whitened_pool_and_damping_follow_the_factor(p: int, d: int) -> None:
    pool = pools(p, d)
    rows, damping = whiten(pool, LAM)
    factor = torch.linalg.cholesky(pool @ pool.mT + LAM * torch.eye(p, dtype=pool.dtype))
    torch.testing.assert_close(factor @ rows, pool)
    torch.testing.assert_close(factor @ damping, LAM.sqrt() * identity_like(factor).expand(3, p, p))
    torch.testing.assert_close(ridge_factor(pool.mT, LAM), factor)


def test_float32_pools_keep_their_dtype_and_are_solved_in_float64() -> None:
    pool = 100 * pools(2, 6).float()
    for small in (pool, pool.repeat(1, 4, 1)):
        found = squared_operator(small, LAM, RHO)
        expected = operator(small.double())
        torch.testing.assert_close(found, (expected @ expected).float(), rtol=1e-4, atol=1e-5)


def test_gradient_of_the_inverse_equals_the_formula() -> None:
    pool = pools(9, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: residual_operator(gram(rows), LAM, RHO), (pool,))


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
