"""Ridge-regression reconstruction of query feature maps from class pools.

The two formulations of the paper (Eq. 8 and Eq. 10) give the same result; every function here
solves whichever system is smaller. What belongs to a class (Gram matrix, Cholesky factor) is always
computed in float64: it is small, and in float32 it loses lambda next to large or repeated features.
What touches the queries runs in the queries' own precision, on factors whose norm is at most one.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, n query
locations (n = queries * r), m = min(p, d) the side of the system.
"""

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_nt, matmul_small

LARGE_RHO = 1.9
"""From 2 on a class adds to the error of some queries: what it takes off is no longer one sum of squares."""

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
        query, pool = _at_least_float32(query, pool)
        lam, rho = _double(lam, query), _double(rho, query)
        factor = _ridge_factor(pool, lam)
        if pool.shape[1] < pool.shape[2]:  # Eq. 8: Q S^T (S S^T + lam I)^-1 S
            coefficients = torch.cholesky_solve(pool.double(), factor)  # way, p, d
            projector = pool.double().mT @ coefficients
        else:  # Eq. 10: Q (S^T S + lam I)^-1 S^T S
            projector = torch.cholesky_solve(_gram(pool), factor)
        return query @ (rho * projector).to(query.dtype)


def location_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Squared distance of every query location from its reconstruction (the summand of Eq. 4).

    No rebuilt map is formed: it is |q|^2 less what a few directions of the class take off, or, where p >= d,
    |(1 - rho) q + rho lam (S^T S + lam I)^-1 q|^2. Either way one product of all queries with all classes.

    Args:
        query: query features, (n, d).
        pool: support features gathered per class, (way, p, d).
        lam: ridge penalty, already rescaled by p / d; must be positive.
        rho: recalibration of the reconstruction's length.

    Returns:
        Errors (way, n), in the dtype of `query` (float32 at least).

    Raises:
        ValueError: if the channels differ, or a class's system is not positive definite.
    """
    with torch.autocast(query.device.type, enabled=False):
        query, pool = _at_least_float32(query, pool)
        lam, rho = _double(lam, query), _double(rho, query)
        if pool.shape[1] >= pool.shape[2]:
            return _energy(query, _residual_operator(pool, lam, rho))
        factors, weights = _factors(pool, lam, rho)
        length = torch.linalg.vector_norm(query, dim=-1).square()  # n; one pass, no temporary
        return length - weights.to(query.dtype) @ _energy(query, factors)


def class_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Mean squared reconstruction error of whole query maps, <Q, Q_c> of Eq. 4.

    Where channels are few, a map enters only through its second moment C_q = Q^T Q / r: the error is
    <C_q, B_c B_c^T> for the residual operator B_c, and no term grows with r x way any more.

    Args:
        query: query feature maps, (queries, r, d).
        pool: support features gathered per class, (way, p, d).
        lam: ridge penalty, already rescaled by p / d; must be positive.
        rho: recalibration of the reconstruction's length.

    Returns:
        Errors (queries, way), in the dtype of `query` (float32 at least).

    Raises:
        ValueError: if the channels differ, or a class's system is not positive definite.
    """
    queries, r, d = query.shape
    way, p, _ = pool.shape
    by_location = queries * r * way * min(p, d) * d
    by_moment = queries * d * d * (r + way) + 8 * way * d**3  # factored, inverted and squared, in float64
    if by_location <= by_moment:
        errors = location_error(query.flatten(0, 1), pool, lam, rho)  # way, n
        return errors.unflatten(1, (queries, r)).mean(-1).mT
    with torch.autocast(query.device.type, enabled=False):
        query, pool = _at_least_float32(query, pool)
        lam, rho = _double(lam, query), _double(rho, query)
        return moment_error(second_moment(query), _residual_operator(pool, lam, rho))


def second_moment(maps: Tensor) -> Tensor:
    """C = Q^T Q / r of every feature map: (n, r, d) to (n, d, d)."""
    # Divided before the product: numpy, given a matrix and itself, takes a kernel that is slower for maps this small.
    return matmul_small(maps.mT, maps / maps.shape[1])


def residual_from_gram(gram: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """B = I - rho (S^T S + lam I)^-1 S^T S = (1 - rho) I + rho lam (S^T S + lam I)^-1.

    Args:
        gram: S^T S of every class in float64, (way, d, d).
        lam: ridge penalty in float64, a scalar.
        rho: recalibration in float64, a scalar.

    Returns:
        Symmetric operators (way, d, d) in float64; `query @ B` is the query less its reconstruction.
    """
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    residual = rho * lam * torch.cholesky_inverse(_cholesky(gram + lam * identity, lam))
    residual.diagonal(dim1=-2, dim2=-1).add_(1 - rho)
    return residual


def moment_error(moment: Tensor, residual: Tensor) -> Tensor:
    """<C_q, B_c^2> for second moments (queries, d, d) and residual operators (way, d, d)."""
    residual = residual.to(moment.dtype)
    squared = matmul_small(residual, residual)  # B is symmetric
    return matmul_nt(squared.flatten(1), moment.flatten(1)).mT


def _energy(query: Tensor, rows: Tensor) -> Tensor:
    """Squared length of `rows @ q` for every query, by one matrix product: (n, d), (..., m, d) to (..., n)."""
    flat = rows.flatten(0, -2).to(query.dtype)
    blocks = query.split(CACHED) if query.is_cpu else (query,)
    energies = [matmul_nt(block, flat).square().unflatten(1, rows.shape[:-1]).sum(-1) for block in blocks]
    return torch.cat(energies).movedim(0, -1)


def _residual_operator(pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    return residual_from_gram(_gram(pool), lam, rho)


def _factors(pool: Tensor, lam: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
    """Factors G_j (way, j, p, d) and weights w_j (j) in float64: the error is |q|^2 - sum_j w_j |G_j q|^2.

    With S S^T + lam I = L L^T it is |q|^2 - |C^T L^-1 S q|^2, where C C^T = rho (2 - rho) I + rho^2 lam L^-1 L^-T. That
    is positive definite for rho < 2 only; for a large rho its two terms stay apart, as two factors.
    """
    pool = pool.double()
    factor = _ridge_factor(pool, lam)
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    kept, damped = rho * (2 - rho), rho.square()
    if rho < LARGE_RHO:
        root = _cholesky(kept * identity + damped * lam * matmul_small(inverse, inverse.mT), lam)
        return matmul_small(matmul_small(root.mT, inverse), pool)[:, None], torch.ones_like(rho[None])
    onto = matmul_small(inverse, pool)
    return torch.stack([onto, lam.sqrt() * matmul_small(inverse.mT, onto)], dim=1), torch.stack([kept, damped])


def _ridge_factor(pool: Tensor, lam: Tensor) -> Tensor:
    """Cholesky factor of the smaller of S S^T + lam I and S^T S + lam I, in float64."""
    gram = _gram(pool.mT) if pool.shape[1] < pool.shape[2] else _gram(pool)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return _cholesky(gram + lam * identity, lam)


def _gram(rows: Tensor) -> Tensor:
    rows = rows.double()
    return matmul_small(rows.mT, rows)


def _cholesky(system: Tensor, lam: Tensor) -> Tensor:
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed.any():
        classes = failed.nonzero().flatten().tolist()
        raise ValueError(
            f"the ridge system of class {classes[0]} (of {len(failed)}; {len(classes)} affected) is not "
            f"positive definite with lambda = {float(lam):.3g}: features must be finite and lambda positive"
        )
    return factor


def _double(value: Tensor | float, like: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64, device=like.device)


def _at_least_float32(query: Tensor, pool: Tensor) -> tuple[Tensor, Tensor]:
    if query.shape[-1] != pool.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} channels but pool has {pool.shape[-1]}")
    dtype = torch.promote_types(torch.promote_types(query.dtype, pool.dtype), torch.float32)
    return query.to(dtype), pool.to(dtype)
