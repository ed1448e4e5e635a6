"""Ridge-regression reconstruction of query feature maps from class pools (Eq. 4, 8, 10).

The two formulations of the paper give the same result; every function here solves whichever system is smaller, and
errors are computed without a reconstruction, in the cheapest of three forms. The class side is computed in float64
(`systems`), the query side in the queries' own precision. Everything is differentiable, and only plain torch operations
run under a compiler, an exporter or a transform.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, n query
locations (n = queries * r).
"""

import torch
from torch import Tensor

from frn.errors import FrnError
from frn.ridge.systems import (
    gram,
    residual_operator,
    ridge_factor,
    squared_operator,
    transformed,
    whiten,
    whitened_pays,
)

CACHED = 1024
"""Query locations per block on a CPU, so that their products with all classes stay in its cache."""
BLOCK = 1 << 23
"""Number of second-moment values in memory at once; a large episode would need more than the network's maps."""


def reconstruct(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Reconstruct every query location as a weighted sum of each class's pool (Eq. 8, Eq. 10).

    Args:
        query: query features, (n, d).
        pool: support features gathered per class, (way, p, d).
        lam: ridge penalty, already rescaled by p / d; must be positive.
        rho: recalibration of the reconstruction's length.

    Returns:
        One reconstruction per class, (way, n, d), in the dtype of `query`.

    Raises FrnError if the channels differ, lambda is not positive (on a processor), or a class's system is singular.
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
    arguments and errors are those of `reconstruct`.
    """
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        if whitened_pays(*pool.shape[1:]):
            return whitened_error(query, pool, lam, rho)
        operator = residual_operator(gram(pool), lam, rho).to(pool.dtype)
        lengths = []
        for block in in_blocks(query):
            through = (block @ operator.flatten(0, 1).mT).unflatten(1, operator.shape[:2])
            lengths.append(torch.linalg.vector_norm(through, dim=-1).square())  # twice as fast as a product
        return torch.cat(lengths).mT


def class_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Return the mean squared error <Q, Q_c> of Eq. 4 (queries, way) of query maps (queries, r, d).

    The other arguments and the errors are those of `reconstruct`.
    """
    queries, r, d = query.shape
    way, p, _ = pool.shape
    if moments_pay(way, p, queries, r, d):
        with torch.autocast(query.device.type, enabled=False):
            return moment_error(*_prepared(query, pool, lam, rho))
    errors = location_error(query.flatten(0, 1), pool, lam, rho)  # way, n
    return errors.unflatten(1, (queries, r)).mean(-1).mT


def whitened_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return the squared error of query locations (n, d) for pools (way, p, d): (way, n).

    With S S^T + lam I = L L^T, V = L^-1 S and M = sqrt(lam) L^-1, whose norms are at most one, the error is

    |q - rho S^T (L L^T)^-1 S q|^2 = |q|^2 - rho (2 - rho) |V q|^2 - rho^2 |M^T V q|^2.
    """
    rows, damping = (part.to(pool.dtype) for part in whiten(pool, lam))
    onto, damped = [], []
    for block in in_blocks(query):
        energy = (rows.flatten(0, 1) @ block.mT).unflatten(0, rows.shape[:2])  # V q, (way, p, n)
        onto.append(energy.square().sum(1))
        damped.append((damping.mT @ energy).square().sum(1))
    taken = rho * (2 - rho) * torch.cat(onto, -1).double() + rho.square() * torch.cat(damped, -1).double()
    return query.square().sum(-1) - taken.to(query.dtype)


def in_blocks(query: Tensor) -> tuple[Tensor, ...]:
    """Split query locations (n, d) into blocks that stay in a CPU's cache."""
    return query.split(CACHED) if query.is_cpu and not transformed() else (query,)


def moments_pay(way: int, p: int, queries: int, r: int, d: int) -> bool:
    """Return whether `moment_error` takes less work than the locations one by one.

    Work is counted in multiplications of large float32 products on one core, as measured by assets/benchmarks/head.py.
    Products whose result is as large as their factors count twice, because they wait for memory.
    """
    n = queries * r
    by_location = n * way * (p * (p + d) if whitened_pays(p, d) else d * d)
    return 2 * d**2 * (n + queries * way) + way * d**3 < by_location


def moment_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return the mean squared error of query maps (queries, r, d) for pools (way, p, d): (queries, way).

    A map enters Eq. 4 only through C = Q^T Q / r: its mean error is <C, B^2> with the class's residual operator B.
    """
    squared = squared_operator(pool, lam, rho).flatten(1)
    blocks = query.split(max(1, BLOCK // query.shape[-1] ** 2))
    return torch.cat([(squared @ second_moment(maps).flatten(1).mT).mT for maps in blocks])


def second_moment(feature_maps: Tensor) -> Tensor:
    """Return C = Q^T Q / r of every feature map: (n, r, d) to (n, d, d)."""
    return feature_maps.mT @ (feature_maps / feature_maps.shape[1])


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
