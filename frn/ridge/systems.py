"""The class's side of the closed form: Gram matrices, Cholesky factors and the residual operator, in float64.

They are small, and in float32 they lose lambda next to large or repeated features. Their results have a norm of about
one at most, so queries meet it in their own precision.

Shape letters: way classes, p pool rows (p = shot * r), d channels, m = min(p, d) the side of the system.
"""

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_small, transformed

MAX_RHO = 1.9
"""Up to this, C C^T of `explaining_rows` has eigenvalues of 0.1 rho and more; at two they are lost in rounding."""


class SingularError(ValueError):
    """A system is not positive definite: the features or lambda are not numbers, or lambda is nothing beside them."""


def gram(rows: Tensor) -> Tensor:
    """X^T X of every class: (way, n, m) to (way, m, m)."""
    rows = rows.double()
    return matmul_small(rows.mT, rows)


def cholesky(system: Tensor, lam: Tensor) -> Tensor:
    """Lower factors of symmetric systems (way, m, m) that hold lambda.

    SingularError if one of them is not positive definite; on other devices, and under a compiler or a transform, its
    factor is NaN instead, because nothing can look at the values.
    """
    factor, failed = torch.linalg.cholesky_ex(system)
    if transformed() or not system.is_cpu:
        return factor.masked_fill(failed[..., None, None] != 0, torch.nan)
    if failed.any():
        classes = failed.nonzero().flatten().tolist()
        raise SingularError(
            f"the ridge system of class {classes[0]} (of {len(failed)}; {len(classes)} affected) is not "
            f"positive definite with lambda = {float(lam):.3g}: features must be finite and lambda positive"
        )
    return factor


def ridge_factor(pool: Tensor, lam: Tensor) -> Tensor:
    """Cholesky factor of the smaller of S S^T + lam I and S^T S + lam I: (way, p, d) to (way, m, m)."""
    rows = pool.double()
    system = matmul_small(rows, rows.mT) if pool.shape[1] < pool.shape[2] else gram(rows)
    return cholesky(system + lam * identity_like(system), lam)


def residual_operator(system: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """B = I - rho (S^T S + lam I)^-1 S^T S = (1 - rho) I + rho lam (S^T S + lam I)^-1, symmetric, (way, d, d).

    From S^T S of every class; `query @ B` is the query less its reconstruction.
    """
    residual = rho * lam * torch.cholesky_inverse(cholesky(system + lam * identity_like(system), lam))
    residual.diagonal(dim1=-2, dim2=-1).add_(1 - rho)
    return residual


def whiten(pool: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
    """V = L^-1 S (way, p, d) and sqrt(lam) L^-1 (way, p, p), with S S^T + lam I = L L^T, in the pool's dtype.

    Neither has a norm above one.
    """
    rows = pool.double()
    inverse = _inverse_factor(rows, lam)
    return (inverse @ rows).to(pool.dtype), (lam.sqrt() * inverse).to(pool.dtype)


def explaining_rows(pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """G = C^T L^-1 S with rho (2 - rho) I + rho^2 lam L^-1 L^-T = C C^T, in the pool's dtype: (way, p, d).

    The error of a query location is |q|^2 - |G q|^2 (`enrolment`), and no singular value of G is above one. For rho up
    to `MAX_RHO`.
    """
    rows = pool.double()
    inverse = _inverse_factor(rows, lam)
    kept = matmul_small(inverse, inverse.mT).mul_(rho.square() * lam)
    kept.diagonal(dim1=-2, dim2=-1).add_(rho * (2 - rho))
    return (matmul_small(cholesky(kept, lam).mT, inverse) @ rows).to(pool.dtype)


def solved_pool(pool: Tensor, lam: Tensor) -> tuple[Tensor, Tensor]:
    """N = (S S^T + lam I)^-1 S (way, p, d), and E = I - S^T N = lam (S^T S + lam I)^-1 (way, d, d).

    In the pool's dtype: E has a norm of one at most, N of 1 / (2 sqrt(lam)).
    """
    rows = pool.double()
    factor = ridge_factor(rows, lam)
    if pool.shape[1] >= pool.shape[2]:
        solved = torch.cholesky_solve(rows.mT, factor).mT
        return solved.to(pool.dtype), (lam * torch.cholesky_inverse(factor)).to(pool.dtype)
    whitened = _whitened(factor, rows)
    solved = torch.linalg.solve_triangular(factor.mT, whitened, upper=True)
    return solved.to(pool.dtype), _complement(whitened.to(pool.dtype))


def pool_operator(pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """B of `residual_operator`, from the smaller system, in the pool's dtype: (way, p, d) to (way, d, d)."""
    if pool.shape[1] >= pool.shape[2]:
        return residual_operator(gram(pool), lam, rho).to(pool.dtype)
    rows = pool.double()
    return _complement(_whitened(ridge_factor(rows, lam), rows).to(pool.dtype), rho)


def _inverse_factor(pool: Tensor, lam: Tensor) -> Tensor:
    """L^-1 of S S^T + lam I = L L^T: (way, p, p)."""
    factor = ridge_factor(pool, lam)
    return torch.linalg.solve_triangular(factor, identity_like(factor), upper=False)


def _whitened(factor: Tensor, rows: Tensor) -> Tensor:
    """L^-1 S (way, p, d)."""
    # From the right: LAPACK counts columns first, and takes the rows' memory as it is.
    return torch.linalg.solve_triangular(factor.mT, rows.mT, upper=True, left=False).mT


def _complement(rows: Tensor, rho: Tensor | float = 1.0) -> Tensor:
    """I - rho V^T V of rows (way, m, d)."""
    left = matmul_small(rows.mT, rows).mul_(-rho)
    left.diagonal(dim1=-2, dim2=-1).add_(1)
    return left


def residual_of(left: Tensor, rho: Tensor) -> Tensor:
    """B = (1 - rho) I + rho E, of E as in `solved_pool`: (way, d, d)."""
    residual = rho.to(left.dtype) * left
    residual.diagonal(dim1=-2, dim2=-1).add_((1 - rho).to(left.dtype))
    return residual


def identity_like(system: Tensor) -> Tensor:
    """The identity (m, m) beside a system (..., m, m)."""
    return torch.eye(system.shape[-1], dtype=system.dtype, device=system.device)
