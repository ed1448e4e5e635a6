"""Ridge-regression reconstruction of query feature maps from class pools (Eq. 4, 8, 10).

The two formulations of the paper give the same result; every function here solves whichever system is smaller. What
belongs to a class is computed in float64 (`systems`), what touches the queries in their own precision.

Shape letters: way classes, p pool rows (p = shot * r), r locations per map, d channels, n query
locations (n = queries * r).
"""

import torch
from torch import Tensor

from frn.ridge.forms import Form, Sizes
from frn.ridge.matmul import matmul_nt, transformed
from frn.ridge.moments import moment_error
from frn.ridge.plain import plain_class_error, plain_location_error, reconstruction
from frn.ridge.systems import MAX_RHO, explaining_rows, pool_operator
from frn.ridge.whitened import in_blocks, whitened_error


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
        ValueError: if the channels differ, lambda is not positive (on a processor), or a class's system is singular.
    """
    with torch.autocast(query.device.type, enabled=False):
        return reconstruction(*_prepared(query, pool, lam, rho))


def location_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Squared distance of every query location from its reconstruction (the summand of Eq. 4), (way, n).

    No reconstruction is formed: it is |q|^2 less what the class's whitened pool takes off, or, where supports are many,
    |(1 - rho) q + rho lam (S^T S + lam I)^-1 q|^2. Either way one product of all queries with all classes. Arguments
    and errors are those of `reconstruct`.
    """
    if transformed():
        with torch.autocast(query.device.type, enabled=False):
            return plain_location_error(*_prepared(query, pool, lam, rho))
    way, p, d = pool.shape
    form = Sizes(way, p, len(query), 1, d).cheapest(gradient=_wants_gradient(query, pool, lam, rho))
    with torch.autocast(query.device.type, enabled=False):
        return _location_error(*_prepared(query, pool, lam, rho), form)


def class_error(query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float) -> Tensor:
    """Mean squared reconstruction error of query maps (queries, r, d), <Q, Q_c> of Eq. 4, (queries, way).

    The other arguments, and errors, are those of `reconstruct`.
    """
    if transformed():
        with torch.autocast(query.device.type, enabled=False):
            return plain_class_error(*_prepared(query, pool, lam, rho))
    queries, r, d = query.shape
    way, p, _ = pool.shape
    form = Sizes(way, p, queries, r, d).cheapest(gradient=_wants_gradient(query, pool, lam, rho))
    with torch.autocast(query.device.type, enabled=False):
        query, pool, lam, rho = _prepared(query, pool, lam, rho)
        if form == "moments":
            return moment_error(query, pool, lam, rho)
        errors = _location_error(query.flatten(0, 1), pool, lam, rho, form)  # way, n
        return errors.unflatten(1, (queries, r)).mean(-1).mT


def _location_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor, form: Form) -> Tensor:
    if form == "operator" or pool.shape[1] >= pool.shape[2]:
        return _squared_length(query, pool_operator(pool, lam, rho))
    if form == "explained" and query.is_cpu and rho <= MAX_RHO:  # elsewhere, looking at rho would wait for it
        explained = _squared_length(query, explaining_rows(pool, lam, rho))
        return torch.linalg.vector_norm(query, dim=-1).square() - explained
    return whitened_error(query, pool, lam, rho)


def _wants_gradient(*values: Tensor | float) -> bool:
    return torch.is_grad_enabled() and any(isinstance(value, Tensor) and value.requires_grad for value in values)


def _squared_length(query: Tensor, operator: Tensor) -> Tensor:
    """Squared length of every query through every operator: (n, d) and (way, m, d) to (way, n)."""
    lengths = []
    for block in in_blocks(query):
        through = matmul_nt(block, operator.flatten(0, 1)).unflatten(1, operator.shape[:2])
        lengths.append(torch.linalg.vector_norm(through, dim=-1).square())  # twice as fast as their product
    return torch.cat(lengths).mT


def _prepared(
    query: Tensor, pool: Tensor, lam: Tensor | float, rho: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features in one dtype, float32 at least; lambda and rho as float64 scalars; ValueError if lambda <= 0."""
    if query.shape[-1] != pool.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} channels but pool has {pool.shape[-1]}")
    dtype = torch.promote_types(torch.promote_types(query.dtype, pool.dtype), torch.float32)
    lam, rho = (torch.as_tensor(value, dtype=torch.float64, device=query.device) for value in (lam, rho))
    if not transformed() and lam.device.type == "cpu" and lam <= 0:  # a question to another device would wait for it
        raise ValueError(f"lambda is {float(lam)}, but must be positive")
    return query.to(dtype), pool.to(dtype), lam, rho
