"""A class, once enrolled, is a few directions: a query is scored by one matrix product for all classes.

In the eigenbasis of S S^T (singular values s_j, right singular vectors v_j) the squared error of a query location is
|q|^2 - sum_j w_j (q . v_j)^2 with w_j = rho h_j (2 - rho h_j) and h_j = s_j^2 / (s_j^2 + lam). So a class is the rows
sqrt|w_j| v_j with the signs of w_j (negative only where rho h_j > 2), or, where none is negative, any rotation of them.
Everything of a class is computed in float64.

Shape letters: way classes, k supports of a class, r locations, d channels, p = k r pool rows, m = min(p, d), M rows of
all classes together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frn.ridge.parameters import HeadParameters

Array = NDArray[np.float64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EnrolledClass:
    """One class: the error of a query location q is |q|^2 less the signed squares of its products with the rows."""

    rows: Floats
    """(m, d)."""
    signs: Floats
    """+1 or -1, (m,)."""


def enroll(feature_maps: NDArray[np.floating], head: HeadParameters) -> EnrolledClass:
    """Enroll a class from feature maps of its supports, (k, r, d); lambda follows their number.

    ValueError if the maps are empty or not finite.
    """
    pool = pool_rows(feature_maps)
    p, d = pool.shape
    lam, rho = head.lam(p, d), head.rho()
    if p > d:  # the triangle of its QR has the same S^T S
        pool = np.asarray(np.linalg.qr(pool, mode="r"), dtype=np.float64)
    try:  # several times as fast
        rows = _rows_by_cholesky(pool, lam, rho)
        signs = np.ones(len(rows))
    except np.linalg.LinAlgError:  # rho h > 2 somewhere: no sum of squares
        rows, signs = _rows_by_svd(pool, lam, rho)
    return EnrolledClass(rows.astype(np.float32), signs.astype(np.float32))


def _rows_by_cholesky(pool: Array, lam: float, rho: float) -> Array:
    """C^T L^-1 S with S S^T + lam I = L L^T and rho (2 - rho) I + rho^2 lam L^-1 L^-T = C C^T."""
    identity = np.eye(len(pool))
    inverse = np.linalg.inv(np.linalg.cholesky(pool @ pool.T + lam * identity))
    root = np.linalg.cholesky(rho * (2 - rho) * identity + rho**2 * lam * (inverse @ inverse.T))
    return root.T @ inverse @ pool


def _rows_by_svd(pool: Array, lam: float, rho: float) -> tuple[Array, Array]:
    """sqrt|w_j| v_j and the signs of w_j."""
    _, sigma, v = np.linalg.svd(pool, full_matrices=False)
    kept = sigma**2 / (sigma**2 + lam)
    weight = rho * kept * (2 - rho * kept)
    return np.sqrt(np.abs(weight))[:, None] * v, np.where(weight < 0, -1, 1)


class ClassScorer:
    """Several enrolled classes, whatever their numbers of supports, scored together."""

    def __init__(self, classes: Sequence[EnrolledClass]) -> None:
        if not classes:
            raise ValueError("a classifier needs at least one class")
        self.rows = np.concatenate([enrolled.rows for enrolled in classes])
        self.signs = np.concatenate([enrolled.signs for enrolled in classes])
        sizes = [len(enrolled.rows) for enrolled in classes]
        self.starts = np.cumsum([0, *sizes[:-1]])
        owner = np.repeat(np.eye(len(classes), dtype=np.float32), sizes, axis=0)
        self.signed = owner * self.signs[:, None]
        """(M, way): the sign of a row in its class's column, zero in the others."""

    def location_error(self, queries: NDArray[np.floating]) -> Floats:
        """Squared error of every location for every class: (q, r, d) to (q, r, way)."""
        locations = np.ascontiguousarray(queries, dtype=np.float32).reshape(-1, queries.shape[-1])
        energy = locations @ self.rows.T
        energy *= energy
        error: Floats = np.vecdot(locations, locations)[:, None] - energy @ self.signed
        return error.reshape(*queries.shape[:-1], -1)

    def class_error(self, queries: NDArray[np.floating]) -> Floats:
        """<Q, Q_c> of Eq. 4 for every class: (q, r, d) to (q, way)."""
        error: Floats = self.location_error(queries).mean(1)
        return error


def pool_rows(feature_maps: NDArray[np.floating]) -> Array:
    """The supports' locations as one pool, in float64: (k, r, d) to (p, d).

    ValueError if the maps are empty or not finite.
    """
    pool = np.asarray(feature_maps, dtype=np.float64).reshape(-1, feature_maps.shape[-1])
    if pool.size == 0 or not np.isfinite(pool).all():
        raise ValueError(f"feature maps of shape {feature_maps.shape} must be finite and not empty")
    return pool
