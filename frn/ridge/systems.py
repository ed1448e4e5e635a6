"""The class side of the closed form: Gram matrices, Cholesky factors and the residual operator, in float64.

These systems are small, and in float32, lambda would vanish next to large or repeated features. Their results have a
norm of at most about one, so queries can use them in their own precision.

Shape letters: way classes, p pool rows (p = shot * r), d channels, m = min(p, d) the side of the system.
"""

from typing import Any

import torch
from torch import Tensor

from frn.errors import FrnError


class SingularError(FrnError):
    """Raised if a system is not positive definite: features or lambda are NaN, or lambda is negligible."""


def gram(rows: Tensor) -> Tensor:
    """Return X^T X of every class: (way, n, m) to (way, m, m)."""
    rows = rows.double()
    return rows.mT @ rows


def ridge_factor(columns: Tensor, lam: Tensor) -> Tensor:
    """Return the lower Cholesky factor of X^T X + lam I, (way, n, m) to (way, m, m). Raises as `_checked` does."""
    factor, failed = torch.linalg.cholesky_ex(_ridge(gram(columns), lam))
    return _checked(factor, failed != 0, lam)


def residual_operator(system: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return B = I - rho (S^T S + lam I)^-1 S^T S = (1 - rho) I + rho lam (S^T S + lam I)^-1, which is symmetric.

    The input is S^T S of every class, (..., d, d); `query @ B` is the query minus its reconstruction. Raises as
    `_checked`.
    """
    ridge = _ridge(system, lam)
    inverse, failed = _inverse(ridge) if transformed() else _Inverse.apply(ridge)
    return rho * lam * _checked(inverse, failed, lam) + (1 - rho) * identity_like(system)


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


def _checked(solved: Tensor, failed: Tensor, lam: Tensor) -> Tensor:
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
    return p * (p + d) < d * d


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
