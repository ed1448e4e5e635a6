"""Errors of query locations by a class's whitened pool, with their gradient by hand.

With S S^T + lam I = L L^T, V = L^-1 S and M = sqrt(lam) L^-1, neither with a norm above one, the error of Eq. 4 is

    |q - rho S^T (L L^T)^-1 S q|^2 = |q|^2 - rho (2 - rho) |V q|^2 - rho^2 |M^T V q|^2,

so no reconstruction is formed, and one product of all queries with all classes does nearly all of it. Autograd would go
back through the float64 factors one by one. With incoming gradients g, H = sum_q g_q q q^T, A = M^T V H,
E = I - V^T V and U = 2 (1 - rho) A + rho (A E + M^T M A),

    dS = -2 rho / sqrt(lam) U E,  d lam = rho / lam <U, M^T V>,  dq = 2 g_q (q - rho (2 - rho) V^T V q - rho^2 ...).

Shape letters: way classes, p pool rows, d channels, n query locations.
"""

from typing import Any

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_nt
from frn.ridge.plain import differentiable_gradient, plain_location_error
from frn.ridge.systems import whiten

CACHED = 1024
"""Query locations at once on a processor: their products with all classes stay in its cache."""


def whitened_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Squared error of query locations (n, d) by pools (way, p, d): (way, n)."""
    error: Tensor = _WhitenedError.apply(query, pool, lam, rho)
    return error


def in_blocks(query: Tensor) -> tuple[Tensor, ...]:
    """Query locations (n, d) in pieces that stay in a processor's cache."""
    return query.split(CACHED) if query.is_cpu else (query,)


class _WhitenedError(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
        """(way, n)."""
        rows, damping = whiten(pool, lam)
        energies = [_project(rows, block) for block in in_blocks(query)]  # V q of each piece, (way, p, n)
        onto = torch.cat([_length(energy) for energy in energies], dim=-1)
        damped = torch.cat([_length(damping.mT @ energy) for energy in energies], dim=-1)
        ctx.save_for_backward(query, pool, lam, rho, rows, damping, onto, damped, *energies)
        kept = (rho * (2 - rho)).to(onto.dtype)
        return torch.linalg.vector_norm(query, dim=-1).square() - kept * onto - rho.square().to(onto.dtype) * damped

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        """Return the gradients of queries, pools, lambda and rho."""
        query, pool, lam, rho, rows, damping, onto, damped, *energies = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second gradient is wanted
            return differentiable_gradient(plain_location_error, (query, pool, lam, rho), gradient)
        of_rho = -2 * (gradient * ((1 - rho).to(onto.dtype) * onto + rho.to(onto.dtype) * damped)).sum(dtype=rho.dtype)
        kept, squared, single = (value.to(rows.dtype) for value in (rho * (2 - rho), rho.square(), rho))
        weighted, of_query = torch.zeros_like(rows).flatten(0, 1), []
        blocks = in_blocks(query)
        for block, energy, share in zip(blocks, energies, gradient.split(len(blocks[0]), dim=1), strict=True):
            through = damping.mT @ energy
            taken = (kept * energy + squared * (damping @ through)).mul_(share[:, None]).flatten(0, 1)
            of_query.append((share.sum(0)[:, None] * block).addmm_(taken.mT, rows.flatten(0, 1), alpha=-1).mul_(2))
            weighted.addmm_(through.mul_(share[:, None]).flatten(0, 1), block)
        weighted = weighted.view_as(rows)  # A
        inner = 2 * (1 - single) * weighted + single * (
            _unexplained(weighted, rows) + damping.mT @ (damping @ weighted)
        )
        of_pool = _unexplained(inner, rows).mul_((-2 * rho / lam.sqrt()).to(rows.dtype))
        of_lam = rho / lam * (inner * (damping.mT @ rows)).sum(dtype=rho.dtype)
        return torch.cat(of_query), of_pool, of_lam, of_rho


def _project(rows: Tensor, query: Tensor) -> Tensor:
    """V q: (way, p, d) and (n, d) to (way, p, n)."""
    return matmul_nt(rows.flatten(0, 1), query).unflatten(0, rows.shape[:2])


def _length(vectors: Tensor) -> Tensor:
    """Squared length over the rows: (way, p, n) to (way, n)."""
    return vectors.square().sum(1)


def _unexplained(rows: Tensor, whitened: Tensor) -> Tensor:
    """X E = X - X V^T V of rows (way, p, d)."""
    return rows - (rows @ whitened.mT) @ whitened
