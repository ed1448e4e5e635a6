"""Ridge-regression reconstruction of query feature maps from class pools (Eq. 4, 8, 10).

The two formulations of the paper give the same result; every function here solves whichever system is smaller. What
belongs to a class is computed in float64 (`systems`), what touches the queries in their own precision.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, n query
locations (n = queries * r).
"""

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_nt
from frn.ridge.moments import moment_error, moments_are_cheaper, second_moment
from frn.ridge.systems import error_factors, gram, residual_operator, ridge_factor

CACHED = 1024
"""Query locations at once on a processor: their products with all classes stay in its cache."""


def reconstruct(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Rebuild every query location as a weighted sum of each class's pool (Eq. 8, Eq. 10).

    Args:
        query: query features, (n, d).
        pool: support features gathered per class, (way, p, d).
        lam: ridge penalty, already rescaled by p / d; must be positive.
        rho: recalibration of the reconstruction's length.

    Returns:
        One reconstruction per class, (way, n, d), in the dtype of `query`.

    Raises:
        ValueError: if the channels differ, or a class's system is not positive definite.
    """
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        factor = ridge_factor(pool, lam)
        if pool.shape[1] < pool.shape[2]:  # Eq. 8: rho Q S^T (S S^T + lam I)^-1 S
            projector = pool.double().mT @ torch.cholesky_solve(pool.double(), factor)
        else:  # Eq. 10: rho Q (S^T S + lam I)^-1 S^T S
            projector = torch.cholesky_solve(gram(pool), factor)
        return query @ (rho * projector).to(query.dtype)


def location_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Squared distance of every query location from its reconstruction (the summand of Eq. 4), (way, n).

    No rebuilt map is formed: it is |q|^2 less what a few directions of the class take off, or, where p >= d,
    |(1 - rho) q + rho lam (S^T S + lam I)^-1 q|^2. Either way one product of all queries with all classes. Arguments
    and errors are those of `reconstruct`.
    """
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        if pool.shape[1] >= pool.shape[2]:
            return _squared_length(query, residual_operator(gram(pool), lam, rho))
        factors, weights = error_factors(pool, lam, rho)
        length = torch.linalg.vector_norm(query, dim=-1).square()  # n; one pass, no temporary
        return length - weights.to(query.dtype) @ _squared_length(query, factors)


def class_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Mean squared reconstruction error of query maps (queries, r, d), <Q, Q_c> of Eq. 4, (queries, way).

    The other arguments, and errors, are those of `reconstruct`.
    """
    queries, r, d = query.shape
    if not moments_are_cheaper(queries, r, d, way=len(pool), p=pool.shape[1]):
        errors = location_error(query.flatten(0, 1), pool, lam, rho)  # way, n
        return errors.unflatten(1, (queries, r)).mean(-1).mT
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        return moment_error(second_moment(query), residual_operator(gram(pool), lam, rho))


def _squared_length(query: Tensor, rows: Tensor) -> Tensor:
    """Squared length of `rows @ q` for every query, by one matrix product: (n, d), (..., m, d) to (..., n)."""
    flat = rows.flatten(0, -2).to(query.dtype)
    blocks = query.split(CACHED) if query.is_cpu else (query,)
    lengths = [matmul_nt(block, flat).square().unflatten(1, rows.shape[:-1]).sum(-1) for block in blocks]
    return torch.cat(lengths).movedim(0, -1)


def _prepared(
    query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features in one dtype, float32 at least; lambda and rho as float64 scalars."""
    if query.shape[-1] != pool.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} channels but pool has {pool.shape[-1]}")
    dtype = torch.promote_types(torch.promote_types(query.dtype, pool.dtype), torch.float32)
    lam, rho = (torch.as_tensor(value, dtype=torch.float64, device=query.device) for value in (lam, rho))
    return query.to(dtype), pool.to(dtype), lam, rho
