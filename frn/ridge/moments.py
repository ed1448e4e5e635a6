"""Errors of whole query maps by their second moments: no term grows with locations times classes.

A map enters Eq. 4 only through C_q = Q^T Q / r: its mean error is <C_q, B_c^2> with the class's residual operator B_c.
That pays where channels are few, or supports many.

Shape letters: way classes, p pool rows, r locations per map, d channels.
"""

from typing import Any

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_nt, matmul_small
from frn.ridge.plain import differentiable_gradient, plain_class_error
from frn.ridge.systems import pool_operator, residual_of, solved_pool

BLOCK = 1 << 23
"""Numbers of second moments at once: of a large episode they would take more than the network's maps."""


def second_moment(feature_maps: Tensor) -> Tensor:
    """C = Q^T Q / r of every feature map: (n, r, d) to (n, d, d)."""
    # Divided before the product: numpy, given a matrix and itself, takes a kernel that is slower for maps this small.
    return matmul_small(feature_maps.mT, feature_maps / feature_maps.shape[1])


def moment_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Mean squared error of query maps (queries, r, d) by pools (way, p, d): (queries, way)."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, pool, lam, rho)):
        error: Tensor = _MomentError.apply(query, pool, lam, rho)
        return error
    residual = pool_operator(pool, lam, rho)
    return _errors(query, matmul_small(residual, residual))


class _MomentError(torch.autograd.Function):
    """`moment_error` with its gradient by hand.

    Autograd would go back through the float64 factors, one by one. But with N = (S S^T + lam I)^-1 S, E = I - S^T N,
    B = (1 - rho) I + rho E, H_c = sum_q g_qc C_q for incoming gradients g, and X = H B + B H,

        dS = -2 rho N X E,  d lam = rho <N X, N>,  d rho = <X, E - I>,  dQ_q = 2 / r Q_q sum_c g_qc B_c^2,

    and every factor here has a norm of at most one, or 1 / (2 sqrt(lam)): float32 does, once they are computed.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
        """(queries, way)."""
        solved, left = solved_pool(pool, lam)
        residual = residual_of(left, rho)
        squared = matmul_small(residual, residual)
        ctx.save_for_backward(query, pool, lam, rho, solved, left, squared)
        return _errors(query, squared)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients of queries, pools, lambda and rho."""
        query, pool, lam, rho, solved, left, squared = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second gradient is wanted
            return differentiable_gradient(plain_class_error, (query, pool, lam, rho), gradient)
        flat, weighted = squared.flatten(1), torch.zeros_like(squared).flatten(1)
        of_query = []
        for maps, share in zip(_blocks(query), gradient.split(_block(query)), strict=True):
            moments = second_moment(maps).flatten(1)
            weighted.addmm_(share.mT, moments)
            pulled = torch.mm(share, flat, out=moments).unflatten(1, squared.shape[1:])
            of_query.append((2 / query.shape[1] * maps) @ pulled)
        half = matmul_small(weighted.unflatten(1, squared.shape[1:]), residual_of(left, rho))
        both = half + half.mT  # X
        onto = solved @ both
        of_lam = rho * (onto * solved).sum(dtype=torch.float64)
        trace = both.diagonal(dim1=-2, dim2=-1).sum(dtype=torch.float64)
        of_rho = (both * left).sum(dtype=torch.float64) - trace
        of_pool = (onto @ left).mul_((-2 * rho).to(onto.dtype))
        return torch.cat(of_query), of_pool, of_lam, of_rho


def _errors(query: Tensor, squared: Tensor) -> Tensor:
    """<C_q, B_c^2> of maps (queries, r, d) and squared residual operators (way, d, d): (queries, way)."""
    flat = squared.flatten(1)
    return torch.cat([matmul_nt(flat, second_moment(maps).flatten(1)).mT for maps in _blocks(query)])


def _blocks(query: Tensor) -> tuple[Tensor, ...]:
    return query.split(_block(query))


def _block(query: Tensor) -> int:
    """Query maps whose second moments are `BLOCK` numbers."""
    return max(1, BLOCK // query.shape[-1] ** 2)
