"""The class's side of the closed form: Gram matrices, Cholesky factors and the residual operator, in float64.

They are small, and in float32 they lose lambda next to large or repeated features. What they give has a norm of about
one at most, so queries meet it in their own precision.

Shape letters: way classes, p pool rows (p = shot * r), d channels, m = min(p, d) the side of the system.
"""

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_small

LARGE_RHO = 1.9
"""From 2 on a class adds to the error of some queries: what it takes off is no longer one sum of squares."""


def gram(rows: Tensor) -> Tensor:
    """X^T X of every class: (way, n, m) to (way, m, m)."""
    rows = rows.double()
    return matmul_small(rows.mT, rows)


def cholesky(system: Tensor, lam: Tensor) -> Tensor:
    """Lower factors of symmetric systems (way, m, m) that hold lambda.

    ValueError if one of them is not positive definite.
    """
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed.any():
        classes = failed.nonzero().flatten().tolist()
        raise ValueError(
            f"the ridge system of class {classes[0]} (of {len(failed)}; {len(classes)} affected) is not "
            f"positive definite with lambda = {float(lam):.3g}: features must be finite and lambda positive"
        )
    return factor


def ridge_factor(pool: Tensor, lam: Tensor) -> Tensor:
    """Cholesky factor of the smaller of S S^T + lam I and S^T S + lam I: (way, p, d) to (way, m, m)."""
    system = gram(pool.mT) if pool.shape[1] < pool.shape[2] else gram(pool)
    return cholesky(system + lam * identity_like(system), lam)


def residual_operator(system: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """B = I - rho (S^T S + lam I)^-1 S^T S = (1 - rho) I + rho lam (S^T S + lam I)^-1, symmetric, (way, d, d).

    From S^T S of every class; `query @ B` is the query less its reconstruction.
    """
    residual = rho * lam * torch.cholesky_inverse(cholesky(system + lam * identity_like(system), lam))
    residual.diagonal(dim1=-2, dim2=-1).add_(1 - rho)
    return residual


def error_factors(pool: Tensor, lam: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
    """Factors G_j (way, j, p, d) and weights w_j (j): the error of a query location is |q|^2 - sum_j w_j |G_j q|^2.

    With S S^T + lam I = L L^T it is |q|^2 - |C^T L^-1 S q|^2, where C C^T = rho (2 - rho) I + rho^2 lam L^-1 L^-T. That
    is positive definite for rho < 2 only; for a large rho its two terms stay apart, as two factors.
    """
    pool = pool.double()
    factor = ridge_factor(pool, lam)
    identity = identity_like(factor)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    kept, damped = rho * (2 - rho), rho.square()
    if rho < LARGE_RHO:
        root = cholesky(kept * identity + damped * lam * matmul_small(inverse, inverse.mT), lam)
        return matmul_small(matmul_small(root.mT, inverse), pool)[:, None], torch.ones_like(rho[None])
    onto = matmul_small(inverse, pool)
    return torch.stack([onto, lam.sqrt() * matmul_small(inverse.mT, onto)], dim=1), torch.stack([kept, damped])


def identity_like(system: Tensor) -> Tensor:
    """The identity (m, m) beside a system (..., m, m)."""
    return torch.eye(system.shape[-1], dtype=system.dtype, device=system.device)
