"""A class, once enrolled, is a few directions: a query is scored by one matrix product for all classes.

In the eigenbasis of S S^T (singular values s_j, right singular vectors v_j) the squared error of a query location is
|q|^2 - sum_j w_j (q . v_j)^2 with w_j = rho h_j (2 - rho h_j) and h_j = s_j^2 / (s_j^2 + lam). So a class is the rows
sqrt|w_j| v_j with the signs of w_j (negative only where rho h_j > 2), or, where none is negative, any rotation of them.
Everything of a class is computed in float64.

Shape letters: way classes, k supports of a class, r locations, d channels, p = k r pool rows, m = min(p, d), M rows of
all classes together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.float32]

LAMBDA_FLOOR = 1e-6
"""Added to lambda by the authors' released code, not by the paper; kept so that published weights score the same."""


@dataclass(frozen=True, slots=True)
class HeadParameters:
    """What the FRN head has learned."""

    alpha: float
    beta: float
    gamma: float

    def lam(self, p: int, d: int) -> float:
        """Lambda of Eq. 7 for p pool rows and d channels."""
        return p / d * math.exp(self.alpha) + LAMBDA_FLOOR

    @property
    def rho(self) -> float:
        """Rho of Eq. 7."""
        return math.exp(self.beta)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """One class: the error of a query location q is |q|^2 less the signed squares of its products with the rows."""

    rows: Floats
    """(m, d)."""
    signs: Floats
    """+1 or -1, (m,)."""


def enroll(maps: NDArray[np.floating], head: HeadParameters) -> Enrolled:
    """Enroll a class.

    Args:
        maps: feature maps of its supports, (k, r, d), finite.
        head: the learned parameters; lambda follows the number of supports.

    Raises:
        ValueError: if the maps are empty or not finite.
    """
    pool = _pool(maps)
    p, d = pool.shape
    lam, rho = head.lam(p, d), head.rho
    if p > d:  # the triangle of its QR has the same S^T S
        pool = np.asarray(np.linalg.qr(pool, mode="r"), dtype=np.float64)
    try:  # several times as fast
        rows = _rows_by_cholesky(pool, lam, rho)
        signs = np.ones(len(rows))
    except np.linalg.LinAlgError:  # rho h > 2 somewhere: no sum of squares
        rows, signs = _rows_by_svd(pool, lam, rho)
    return Enrolled(rows.astype(np.float32), signs.astype(np.float32))


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


class Bank:
    """Several enrolled classes, whatever their numbers of supports, scored together."""

    def __init__(self, classes: Sequence[Enrolled]) -> None:
        if not classes:
            raise ValueError("a bank needs at least one class")
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


def probabilities(errors: NDArray[np.floating], gamma: float) -> Array:
    """Softmax over classes of -gamma times the errors (Eq. 9), in float64: (..., way) to (..., way)."""
    logits = -gamma * errors.astype(np.float64)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def leave_one_out(maps: NDArray[np.floating], head: HeadParameters) -> Array:
    """Class error of every support when the other k - 1 rebuild it, from one inverse for all of them.

    With A = S S^T + lam I, B = A^-1 and the blocks of image i, the ridge weights of its rows on the others' are
    -B_i^-1 B_(i, rest), so z.w and w.w of the low-rank distance are the diagonals of A_i - B_i^-1 and of
    B_i^-1 (B B)_i B_i^-1 - I. Lambda is that of k - 1 supports.

    Args:
        maps: feature maps of a class's supports, (k, r, d), at least two.
        head: the learned parameters.

    Returns:
        Errors (k,): large for an outlier.

    Raises:
        ValueError: if there are fewer than two supports, or the maps are not finite.
    """
    k, r, d = maps.shape
    if k < 2:
        raise ValueError(f"leaving one out needs at least two supports, not {k}")
    lam, rho = head.lam((k - 1) * r, d), head.rho
    energy, along, kept = left_out_parts(maps, lam)
    error = energy - 2 * rho * along + rho**2 * kept
    mean: Array = error.mean(axis=1)
    return mean


def left_out_parts(maps: NDArray[np.floating], lam: float) -> tuple[Array, Array, Array]:
    """What `leave_one_out` is made of: |q|^2, q.q' and |q'|^2 of each location, q' rebuilt at rho = 1; (k, r) each.

    Args:
        maps: feature maps of a class's supports, (k, r, d), at least two.
        lam: ridge penalty of k - 1 supports, already rescaled.
    """
    k, r, d = maps.shape
    pool = _pool(maps)
    images = pool.reshape(k, r, d)
    identity = np.eye(r)
    if len(pool) <= d:
        inverse = np.linalg.inv(pool @ pool.T + lam * np.eye(len(pool)))
        rows = inverse.reshape(k, r, -1)
        own = np.stack([rows[i, :, i * r : (i + 1) * r] for i in range(k)])
        squared = rows @ rows.mT
    else:  # B = (I - S P S^T) / lam with P = (S^T S + lam I)^-1
        smaller = np.linalg.inv(pool.T @ pool + lam * np.eye(d))
        own = (identity - images @ smaller @ images.mT) / lam
        squared = (own - images @ smaller @ smaller @ images.mT) / lam
    return rebuilt_by_others(own, squared, images @ images.mT, lam)


def rebuilt_by_others(own: Array, squared: Array, gram: Array, lam: float) -> tuple[Array, Array, Array]:
    """As `left_out_parts`, from the images' blocks of B, of B B and of S S^T, (k, r, r) each."""
    solved = np.linalg.inv(own)
    along = _diagonals(gram + lam * np.eye(own.shape[1]) - solved)  # z . w of each location
    length = _diagonals(solved @ squared @ solved) - 1  # w . w
    return _diagonals(gram), along, along - lam * length


def _diagonals(blocks: Array) -> Array:
    return np.diagonal(blocks, axis1=1, axis2=2)


def _pool(maps: NDArray[np.floating]) -> Array:
    pool = np.asarray(maps, dtype=np.float64).reshape(-1, maps.shape[-1])
    if pool.size == 0 or not np.isfinite(pool).all():
        raise ValueError(f"feature maps of shape {maps.shape} must be finite and not empty")
    return pool
