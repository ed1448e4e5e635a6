"""Transductive inference: the queries refine the classes that they are compared with. This module does not need torch.

A query that probably belongs to a class is also an example of it. So a class becomes its pool plus all queries, each
query with its weight w = w_qc, and the queries are scored again, a few times:

    A_c = S^T S + sum_q w_qc Q^T Q + lam I

with lambda following the shots and the weights together. A query must not reconstruct itself: the errors are those
without the query's own weighted rows, and the r x r identity gives them from the one inverse of the class,

    Q (A_c - w Q^T Q)^-1 = (I - w K)^-1 Q A_c^-1,    K = Q A_c^-1 Q^T.

A weight is half of the probability of the class, times a gate that is near 0 for queries that no class explains well,
because those probably belong to no class. Gamma grows with the classes, as it does with shots, but less: queries are
not examples.

Refined errors are also smaller for queries of unknown classes. So the errors before refinement decide whether a query
is unknown. Each answer depends on all queries passed together.

Shape letters: way classes, k supports of a class, r locations, d channels, q queries, n of them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from frn.ridge.enrolment import AnyMaps, Array, Floats, energy, pool_rows
from frn.ridge.parameters import HeadParameters, probabilities

ROUNDS = 3
STRANGERS = 0.3  # fraction of the queries whose gate is below one half
NEGLIGIBLE = 0.01  # weights below this are set to 0, so that most queries need no r x r inverse for most classes
BLOCK = 1 << 25  # number of second-moment values in memory at once


def refine(errors: Array, pools: Sequence[AnyMaps], queries: AnyMaps, head: HeadParameters) -> tuple[Array, float]:
    """Return class errors (q, way) of queries (q, r, d) that refine the classes, and the gamma for them.

    `errors` are those without refinement, from pools (k, r, d) of each class.
    """
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    grams = np.stack([rows.T @ rows for rows in map(pool_rows, pools)])
    shots = np.array([len(pool) for pool in pools])
    energies, gamma = energy(queries), head.gamma
    for _ in range(ROUNDS):
        weights = _weights(errors, energies, gamma)
        errors = mixture_errors(grams, shots, queries, weights, head)
        # Exponent with which gamma follows the classes' growth; the square root, as for shots, was overconfident
        gamma = head.gamma * float((1 + weights.sum(0) / shots).mean()) ** 0.25
    return errors, gamma


def _weights(errors: Array, energies: Array, gamma: float) -> Array:
    """Return how much each query counts as an example of each class, (q, way), from its errors and energies (q,)."""
    missing = np.divide(errors.min(1), energies, out=np.ones(len(energies)), where=energies > 0)
    spread = missing.std() or 1.0
    gate = 1 / (1 + np.exp((missing - np.quantile(missing, 1 - STRANGERS)) / spread))
    # Weight of a query that certainly belongs to a class, relative to that of an example
    weights = 0.5 * gate[:, None] * probabilities(errors, gamma)
    return np.where(weights < NEGLIGIBLE, 0, weights)


def mixture_errors(
    grams: Array, shots: NDArray[np.intp], queries: Floats, weights: Array, head: HeadParameters
) -> Array:
    """Return leave-one-out class errors (q, way) from pools' S^T S (way, d, d) and weighted queries."""
    r, d = queries.shape[1:]
    rho, lams = head.rho(), head.lam(r, d) * (shots + weights.sum(0)).clip(1)
    systems = grams + lams[:, None, None] * np.eye(d)
    for chosen, moments in _moments(queries):
        systems += np.tensordot(weights[chosen].T.astype(np.float32), moments, 1)
    kept = np.stack([lam * np.linalg.inv(system) for lam, system in zip(lams, systems, strict=True)])
    residual = ((1 - rho) * np.eye(d) + rho * kept).astype(np.float32)
    squared, kept = residual @ residual, kept.astype(np.float32)
    errors = np.concatenate([np.tensordot(moments, squared, ((1, 2), (1, 2))) / r for _, moments in _moments(queries)])
    for column, lam in enumerate(lams):
        counted = np.flatnonzero(weights[:, column])
        maps, weight = queries[counted], weights[counted, column, None, None] / lam
        solved = maps @ kept[column]  # lam Q A^-1
        without = np.linalg.solve(np.eye(r) - weight * (solved @ maps.mT), solved)
        errors[counted, column] = energy((1 - rho) * maps + rho * without)
    return np.asarray(errors, dtype=np.float64)


def _moments(queries: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield Q^T Q (n, d, d) of the queries in blocks, with their indices."""
    size = max(1, BLOCK // queries.shape[2] ** 2)
    for start in range(0, len(queries), size):
        chosen = slice(start, start + size)
        yield chosen, queries[chosen].mT @ queries[chosen]
