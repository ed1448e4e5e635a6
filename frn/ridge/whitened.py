"""Errors of query locations from a class's whitened pool.

With S S^T + lam I = L L^T, V = L^-1 S and M = sqrt(lam) L^-1, whose norms are at most one, the error of Eq. 4 is

|q - rho S^T (L L^T)^-1 S q|^2 = |q|^2 - rho (2 - rho) |V q|^2 - rho^2 |M^T V q|^2,

so no reconstruction is computed, and one product of all queries with all classes does nearly all the work.

Shape letters: way classes, p pool rows, d channels, n query locations.
"""

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_nt, transformed
from frn.ridge.systems import whiten

CACHED = 1024
"""Query locations per block on a CPU, so that their products with all classes stay in its cache."""


def whitened_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return the squared error of query locations (n, d) for pools (way, p, d): (way, n)."""
    rows, damping = (part.to(pool.dtype) for part in whiten(pool, lam))
    onto, damped = [], []
    for block in in_blocks(query):
        energy = matmul_nt(rows.flatten(0, 1), block).unflatten(0, rows.shape[:2])  # V q, (way, p, n)
        onto.append(energy.square().sum(1))
        damped.append((damping.mT @ energy).square().sum(1))
    taken = rho * (2 - rho) * torch.cat(onto, -1).double() + rho.square() * torch.cat(damped, -1).double()
    return query.square().sum(-1) - taken.to(query.dtype)


def in_blocks(query: Tensor) -> tuple[Tensor, ...]:
    """Split query locations (n, d) into blocks that stay in a CPU's cache."""
    return query.split(CACHED) if query.is_cpu and not transformed() else (query,)
