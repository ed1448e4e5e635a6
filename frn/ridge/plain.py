"""The closed form by differentiable torch operations alone: what compilers, exporters and `torch.func` transforms take.

`reconstruct` always follows it. Errors take faster forms with a gradient by hand elsewhere, whose own gradient is
that of these formulas.

Shape letters: way classes, p pool rows, r locations per map, d channels, n query locations.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from frn.ridge.systems import gram, ridge_factor

Formula = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def reconstruction(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Query locations (n, d) rebuilt by pools (way, p, d): (way, n, d)."""
    factor = ridge_factor(pool, lam)
    if pool.shape[1] < pool.shape[2]:  # Eq. 8: rho Q S^T (S S^T + lam I)^-1 S
        projector = pool.double().mT @ torch.cholesky_solve(pool.double(), factor)
    else:  # Eq. 10: rho Q (S^T S + lam I)^-1 S^T S
        projector = torch.cholesky_solve(gram(pool), factor)
    return query @ (rho * projector).to(query.dtype)


def plain_location_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Squared error of query locations (n, d): (way, n)."""
    return (query - reconstruction(query, pool, lam, rho)).square().sum(-1)


def plain_class_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Mean squared error of query maps (queries, r, d): (queries, way)."""
    return plain_location_error(query.flatten(0, 1), pool, lam, rho).unflatten(1, query.shape[:2]).mean(-1).mT


def differentiable_gradient(formula: Formula, inputs: tuple[Tensor, ...], gradient: Tensor) -> tuple[Tensor, ...]:
    """Gradient of a formula's inputs, with a gradient of its own."""
    pulled: tuple[Tensor, ...] = torch.func.vjp(formula, *inputs)[1](gradient)
    return pulled
