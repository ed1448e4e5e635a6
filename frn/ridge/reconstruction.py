"""Ridge-regression reconstruction of query feature maps from class pools (Eq. 4, 8, 10).

The two formulations of the paper give the same result; every function here solves whichever system is smaller. The
class side is computed in float64 (`systems`), the query side in the queries' own precision. Everything is
differentiable, and only plain torch operations run under a compiler, an exporter or a transform.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, n query
locations (n = queries * r).
"""

import torch
from torch import Tensor

from frn.errors import FrnError
from frn.ridge.forms import moments_pay, whitened_pays
from frn.ridge.matmul import matmul_nt, transformed
from frn.ridge.moments import moment_error
from frn.ridge.systems import gram, residual_operator, ridge_factor
from frn.ridge.whitened import in_blocks, whitened_error


def reconstruct(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Reconstruct every query location as a weighted sum of each class's pool (Eq. 8, Eq. 10).

    Args:
        query: query features, (n, d).
        pool: support features gathered per class, (way, p, d).
        lam: ridge penalty, already rescaled by p / d; must be positive.
        rho: recalibration of the reconstruction's length.

    Returns:
        One reconstruction per class, (way, n, d), in the dtype of `query`.

    Raises:
        FrnError: if the channels differ, lambda is not positive (on a processor), or a class's system is singular.
    """
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        rows = pool.double()
        if pool.shape[1] < pool.shape[2]:  # Eq. 8: rho Q S^T (S S^T + lam I)^-1 S
            projector = rows.mT @ torch.cholesky_solve(rows, ridge_factor(rows.mT, lam))
        else:  # Eq. 10: rho Q (S^T S + lam I)^-1 S^T S
            projector = torch.cholesky_solve(gram(rows), ridge_factor(rows, lam))
        return query @ (rho * projector).to(query.dtype)


def location_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Return the squared distance (way, n) of query locations from their reconstructions (the summand of Eq. 4).

    No reconstruction is computed. The result is |q|^2 minus a term from the class's whitened pool or, for many
    supports, |(1 - rho) q + rho lam (S^T S + lam I)^-1 q|^2. Both are one product of all queries with all classes. The
    arguments are those of `reconstruct`.

    Raises:
        FrnError: as for `reconstruct`.
    """
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        if whitened_pays(*pool.shape[1:]):
            return whitened_error(query, pool, lam, rho)
        operator = residual_operator(gram(pool), lam, rho).to(pool.dtype)
        lengths = []
        for block in in_blocks(query):
            through = matmul_nt(block, operator.flatten(0, 1)).unflatten(1, operator.shape[:2])
            lengths.append(torch.linalg.vector_norm(through, dim=-1).square())  # twice as fast as a product
        return torch.cat(lengths).mT


def class_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Return the mean squared error <Q, Q_c> of Eq. 4 (queries, way) of query maps (queries, r, d).

    The other arguments are those of `reconstruct`.

    Raises:
        FrnError: as for `reconstruct`.
    """
    queries, r, d = query.shape
    way, p, _ = pool.shape
    if moments_pay(way, p, queries, r, d):
        with torch.autocast(query.device.type, enabled=False):
            return moment_error(*_prepared(query, pool, lam, rho))
    errors = location_error(query.flatten(0, 1), pool, lam, rho)  # way, n
    return errors.unflatten(1, (queries, r)).mean(-1).mT


def _prepared(
    query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Convert features to one dtype, at least float32, and lambda and rho to float64. Raises as `reconstruct` does."""
    if query.shape[-1] != pool.shape[-1]:
        raise FrnError(f"query has {query.shape[-1]} channels but pool has {pool.shape[-1]}")
    dtype = torch.promote_types(torch.promote_types(query.dtype, pool.dtype), torch.float32)
    lam, rho = (torch.as_tensor(value, dtype=torch.float64, device=query.device) for value in (lam, rho))
    if not transformed() and lam.device.type == "cpu" and lam <= 0:  # reading its value on a GPU would block
        raise FrnError(f"lambda is {lam.item()}, but must be positive")
    return query.to(dtype), pool.to(dtype), lam, rho
