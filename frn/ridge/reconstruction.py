"""Ridge-regression reconstruction of query feature maps from class pools (Eq. 4, 8, 10).

The two formulations of the paper give the same result; every function here solves whichever system is smaller, and
errors are computed without a reconstruction, in the cheapest of three forms. The query side is computed in the queries'
own precision. The class side is computed in float64: its systems are small, and in float32, lambda would vanish next to
large or repeated features. Everything is differentiable, and only plain torch operations run under a compiler, an
exporter or a transform.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, n query locations
(n = queries * r), m = min(p, d) the side of a class's system.
"""

from typing import Any

import torch
from torch import Tensor

from frn.errors import FrnError

CACHED = 1024  # query locations per block on a CPU, so that their products with all classes stay in its cache
BLOCK = 1 << 23  # second-moment values in memory at once; a large episode would need more than the network's maps


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
        if is_fixed(pool.shape[1]) and pool.shape[1] < pool.shape[2]:  # Eq. 8: rho Q S^T (S S^T + lam I)^-1 S
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
    if not is_fixed(way, p, queries, r):
        return False
    by_location, squaring = d * d, d**3
    if whitened_pays(p, d):  # the operator is then squared in float64, where a product takes twice as long
        by_location, squaring = p * (p + d), max(d**3, 2 * p * d * (2 * p + d))
    return 2 * d**2 * (queries * r + queries * way) + way * squaring < queries * r * way * by_location


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


class SingularError(FrnError):
    """Raised if a system is not positive definite: features or lambda are NaN, or lambda is negligible."""


def gram(rows: Tensor) -> Tensor:
    """Return X^T X of every class: (way, n, m) to (way, m, m)."""
    rows = rows.double()
    return rows.mT @ rows


def ridge_factor(columns: Tensor, lam: Tensor) -> Tensor:
    """Return the lower Cholesky factor of X^T X + lam I, (way, n, m) to (way, m, m). Raises as `checked` does."""
    factor, failed = torch.linalg.cholesky_ex(_ridge(gram(columns), lam))
    return checked(factor, failed != 0, lam)


def residual_operator(system: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return B = I - rho (S^T S + lam I)^-1 S^T S = (1 - rho) I + rho lam (S^T S + lam I)^-1, which is symmetric.

    The input is S^T S of every class, (..., d, d); `query @ B` is the query minus its reconstruction. Raises as
    `checked`.
    """
    ridge = _ridge(system, lam)
    inverse, failed = _inverse(ridge) if transformed() else _Inverse.apply(ridge)
    return rho * lam * checked(inverse, failed, lam) + (1 - rho) * identity_like(system)


def _inverse(ridge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverses of positive definite (..., m, m), and which of them (...) are not positive definite."""
    factor, info = torch.linalg.cholesky_ex(ridge)
    return torch.cholesky_inverse(factor), info != 0


class _Inverse(torch.autograd.Function):
    """`_inverse` with the gradient of an inverse; torch's own, through the factor, is several times slower."""

    @staticmethod
    def forward(ctx: Any, ridge: Tensor) -> tuple[Tensor, Tensor]:
        inverse, failed = _inverse(ridge)
        ctx.save_for_backward(inverse)
        ctx.mark_non_differentiable(failed)
        return inverse, failed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -inverse @ gradient @ inverse


def _ridge(system: Tensor, lam: Tensor) -> Tensor:
    return system + lam * identity_like(system)


def checked(solved: Tensor, failed: Tensor, lam: Tensor) -> Tensor:
    """Return solutions (..., m, m); raise SingularError if some systems (...) were not positive definite.

    On other devices, and under a compiler or a transform, such solutions become NaN, because values cannot be
    inspected.
    """
    if transformed() or not solved.is_cpu:
        return solved.masked_fill(failed[..., None, None], torch.nan)
    if failed.any():
        classes = failed.nonzero().flatten().tolist()
        raise SingularError(
            f"the ridge system of class {classes[0]} (of {len(failed)}; {len(classes)} affected) is not "
            f"positive definite with lambda = {lam.item():.3g}: features must be finite and lambda positive"
        )
    return solved


def whitened_pays(p: int, d: int) -> bool:
    """Return whether the whitened pool (p, d) and a damping (p, p) take less work than the residual operator (d, d)."""
    return is_fixed(p) and p * (p + d) < d * d


def is_fixed(*sizes: int) -> bool:
    """Return whether sizes are known; they are not in a program that is exported with free ways, shots or queries.

    A branch would fix them, so the forms that suit any size are used then: Eq. 10 and the residual operator.
    """
    return not any(isinstance(size, torch.SymInt) for size in sizes)


def squared_operator(pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return B^2 of the residual operator, in the pool's dtype: (way, p, d) to (way, d, d)."""
    if not whitened_pays(*pool.shape[1:]):
        residual = residual_operator(gram(pool), lam, rho).to(pool.dtype)
        return residual @ residual
    # Stay in float64 up to here; rounding earlier would lose the gradient of lambda with few rows.
    rows, _ = whiten(pool, lam)
    small = gram(rows.mT)
    taken = rows.mT @ (rho * (2 * identity_like(small) - rho * small)) @ rows
    return (identity_like(taken) - taken).to(pool.dtype)


def whiten(pool: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
    """Return V = L^-1 S (way, p, d) and sqrt(lam) L^-1 (way, p, p) with S S^T + lam I = L L^T; no norm exceeds one."""
    rows = pool.double()
    factor = ridge_factor(rows.mT, lam)
    inverse = torch.linalg.solve_triangular(factor, identity_like(factor), upper=False)
    return inverse @ rows, lam.sqrt() * inverse


def identity_like(system: Tensor) -> Tensor:
    """Return the identity (m, m) with the dtype and device of a system (..., m, m)."""
    return torch.eye(system.shape[-1], dtype=system.dtype, device=system.device)


def transformed() -> bool:
    """Return whether torch is compiling, exporting or tracing, or a `torch.func` transform is active.

    Only plain operations work then: values cannot be inspected, and there are no custom gradients.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    # torch.autograd.Function makes the same check; it has no public name.
    return torch._C._are_functorch_transforms_active()
