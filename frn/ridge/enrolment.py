"""Enrolled classes: each is a few directions, so one matrix product scores a query against all classes.

In the eigenbasis of S S^T (singular values s_j, right singular vectors v_j) the squared error of a query location is
|q|^2 - sum_j w_j (q . v_j)^2 with w_j = rho h_j (2 - rho h_j) and h_j = s_j^2 / (s_j^2 + lam). A class is thus stored
as the rows sqrt|w_j| v_j with the signs of w_j (negative only where rho h_j > 2) or, without negative signs, any
rotation of these rows. A class is computed in float64. Leave-one-out reconstructs each support from the others of its
class, with one inverse.

Shape letters: way classes, k supports of a class, r locations, d channels, p = k r pool rows, m = min(p, d), M rows of
all classes together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.ridge.parameters import HeadParameters

MAX_FACTOR = 1e6  # limit of a row's values, usually about rho at most; products of larger ones may overflow float32
Array = NDArray[np.float64]
Floats = NDArray[np.float32]
AnyMaps = NDArray[np.floating]  # feature maps in float32 or float64


class Allowance(NamedTuple):
    """What a class with more photos than others adds to its errors (`ridge.unequal`)."""

    share: float = 0.0
    """Share of what exceeds the usual error."""
    usual: float = 0.0
    """Usual error of a class's own photos, as a share of their energy."""


NO_ALLOWANCE = Allowance()


def allowed(
    errors: NDArray[np.floating], energies: Array | float, share: float | NDArray[np.floating], usual: float
) -> NDArray[np.floating]:
    """Return what allowances add to the errors of photos, from errors and energies of shapes that go together."""
    return share * np.maximum(errors - usual * energies, 0)


@dataclass(frozen=True, slots=True)
class EnrolledClass:
    """One class; a query location q has the error |q|^2 minus the signed squares of its products with the rows."""

    rows: Floats  # (m, d)
    signs: Floats  # +1 or -1, (m,)
    centre: Floats  # mean location of the supports, (d,)
    allowance: Allowance = NO_ALLOWANCE


def enroll(feature_maps: NDArray[np.floating], head: HeadParameters) -> EnrolledClass:
    """Enroll a class from feature maps of its supports, (k, r, d); lambda follows their number.

    Raises FrnError if the maps are empty or not finite, or no trained model has such head parameters.
    """
    pool = pool_rows(feature_maps)
    p, d = pool.shape
    centre = pool.mean(0)
    lam, rho = head.lam(p, d), head.rho()
    try:
        rows, signs = _rows_by_eigh(pool, lam, rho) if p > d else _rows_by_cholesky(pool, lam, rho)
    except np.linalg.LinAlgError:  # rho h > 2 for some direction, or lambda is lost in rounding
        rows, signs = _rows_by_eigh(pool, lam, rho)
    if not np.abs(rows).max(initial=0) <= MAX_FACTOR:
        raise FrnError(f"the model's head is damaged: with rho = {rho:g} no class can be enrolled")
    return EnrolledClass(rows.astype(np.float32), signs.astype(np.float32), centre.astype(np.float32))


def _rows_by_cholesky(pool: Array, lam: float, rho: float) -> tuple[Array, Array]:
    """Return C^T L^-1 S with S S^T + lam I = L L^T and rho (2 - rho) I + rho^2 lam L^-1 L^-T = C C^T, and signs."""
    identity = np.eye(len(pool))
    inverse = np.linalg.inv(np.linalg.cholesky(pool @ pool.T + lam * identity))
    root = np.linalg.cholesky(rho * (2 - rho) * identity + rho**2 * lam * (inverse @ inverse.T))
    return root.T @ inverse @ pool, np.ones(len(pool))


def _rows_by_eigh(pool: Array, lam: float, rho: float) -> tuple[Array, Array]:
    """Return sqrt|w_j| v_j and the signs of w_j, from the m last eigenvectors v_j of S^T S."""
    squares, vectors = np.linalg.eigh(pool.T @ pool)
    squares, v = squares[-len(pool) :].clip(0), vectors.T[-len(pool) :]
    kept = squares / (squares + lam)
    weight = rho * kept * (2 - rho * kept)
    return np.sqrt(np.abs(weight))[:, None] * v, np.where(weight < 0, -1, 1)


BLOCK = 1 << 19  # number of values in the class rows joined for one product: few enough for the processor's cache
OPERATORS = 1 << 28  # maximum number of values of residual operators to keep, unless the rows take at least as many
READ_COST = 20  # number of multiplications that take as long as reading a value from memory


@dataclass(frozen=True, slots=True)
class JoinedClasses:
    """Classes whose rows are concatenated for one product."""

    rows: Floats  # (M, d)
    signs: Floats  # (M,)
    sizes: NDArray[np.intp]  # number of rows of each class, (way,)

    @classmethod
    def of(cls, classes: Iterable[EnrolledClass]) -> "JoinedClasses":
        rows, signs = zip(*((enrolled.rows, enrolled.signs) for enrolled in classes), strict=True)
        return cls(np.concatenate(rows), np.concatenate(signs), np.array([len(of_class) for of_class in rows]))

    @property
    def starts(self) -> NDArray[np.intp]:
        """Return the first row of each class, (way,)."""
        return np.cumsum(self.sizes) - self.sizes

    def energy(self, locations: Floats) -> Floats:
        """Return how much each class subtracts from the squared length of locations: (..., d) to (..., way)."""
        energy: Floats = locations @ self.rows.T
        energy *= energy
        if (self.signs < 0).any():
            energy *= self.signs
        return np.add.reduceat(energy, self.starts, axis=-1)


@dataclass(frozen=True, slots=True)
class Centres:
    """Mean locations of classes, for the distance to a photo's mean location."""

    origin: Array  # mean of the centres, (d,)
    offsets: Array  # centres from the origin, (way, d)
    scale: float  # mean squared length of the centres: the unit of distances

    @classmethod
    def of(cls, classes: Iterable[EnrolledClass]) -> "Centres":
        centres = np.stack([enrolled.centre for enrolled in classes]).astype(np.float64)
        origin = centres.mean(0)
        return cls(origin, centres - origin, float(np.square(centres).sum(1).mean()) or 1.0)

    def distance(self, feature_maps: NDArray[np.floating]) -> Array:
        """Return the squared distance from each map's mean location to each centre: (q, r, d) to (q, way)."""
        offsets = feature_maps.mean(1, dtype=np.float64) - self.origin
        squares = np.square(offsets).sum(1)[:, None] + np.square(self.offsets).sum(1) - 2 * offsets @ self.offsets.T
        return squares.clip(0) / self.scale


class ClassScorer:
    """Scores queries against several enrolled classes, each with any number of supports.

    Ten thousand classes need only memory for their rows and a few blocks. Many classes with many supports are scored
    by a query's second moment against each class's operator I - G^T G if that is less work than its r rows against the
    m rows of each class: it is exact and takes r m / (d / 2) times less. The operators are computed after enough
    queries to make up for their cost.
    """

    def __init__(self, classes: Sequence[EnrolledClass]) -> None:
        if not classes:
            raise FrnError("a classifier needs at least one class")
        self.classes = list(classes)
        self.centres = Centres.of(classes)
        self.shares = np.array([enrolled.allowance.share for enrolled in classes])
        self.usual = classes[0].allowance.usual
        self._blocks = _in_blocks(classes)
        self._whole = JoinedClasses.of(self._blocks[0]) if len(self._blocks) == 1 else None
        d = classes[0].rows.shape[1]
        numbers, in_operators = sum(enrolled.rows.size for enrolled in classes), len(classes) * d * (d + 1) // 2
        self._numbers, self._in_operators = numbers, in_operators
        self._fits = len(self._blocks) > 1 and (in_operators <= OPERATORS or in_operators <= numbers)
        self.operators: list[Floats] | None = None
        self._seen = 0

    def location_error(self, queries: NDArray[np.floating]) -> Floats:
        """Return the squared error of every location for every class: (q, r, d) to (q, r, way)."""
        maps = np.ascontiguousarray(queries, dtype=np.float32)
        length = np.vecdot(maps, maps)[..., None]
        if self._whole:  # one product per map, so that results do not depend on other queries
            return length - self._whole.energy(maps)
        locations = maps.reshape(-1, maps.shape[-1])
        parts = [JoinedClasses.of(block).energy(locations) for block in self._blocks]
        return length - np.concatenate(parts, axis=1).reshape(*maps.shape[:-1], -1)

    def class_error(self, queries: NDArray[np.floating]) -> Floats:
        """Return <Q, Q_c> of Eq. 4 for every class, plus allowances: (q, r, d) to (q, way)."""
        errors = self._reconstruction_error(queries)
        return self.with_allowances(errors, energy(queries)).astype(np.float32) if self.shares.any() else errors

    def with_allowances(self, errors: NDArray[np.floating], energies: Array) -> Array:
        """Return class errors (..., way) of photos plus allowances; the energies are those of the photos, (...)."""
        return errors + allowed(errors, energies[..., None], self.shares, self.usual)

    def _reconstruction_error(self, queries: NDArray[np.floating]) -> Floats:
        count, r, d = queries.shape
        self._seen += count
        by_rows, by_operators = self._numbers * (count * r + READ_COST), self._in_operators * (count + READ_COST)
        if self._fits and by_operators < by_rows and (self.operators or self._seen * r >= d):
            return self._by_operators(queries)
        return self.location_error(queries).mean(1)

    def _by_operators(self, queries: NDArray[np.floating]) -> Floats:
        maps = np.ascontiguousarray(queries, dtype=np.float32)
        count, r, d = maps.shape
        half = np.flatnonzero(np.tri(d, dtype=bool).T)  # the upper triangle: moments are symmetric
        if self.operators is None:
            self.operators = [_packed(block, half) for block in self._blocks]
        moments = (maps.transpose(0, 2, 1) @ (maps / r)).reshape(count, -1).take(half, axis=1)
        return np.concatenate([moments @ each.T for each in self.operators], axis=1)


def _packed(classes: Sequence[EnrolledClass], half: NDArray[np.intp]) -> Floats:
    """Return the upper triangles of I - G^T G, (way, d (d + 1) / 2); values off the diagonal count for both sides."""
    taken: Floats = np.stack([((one.rows.T * one.signs) @ one.rows).take(half) for one in classes])
    is_diagonal = half % (classes[0].rows.shape[1] + 1) == 0
    np.subtract(is_diagonal, taken, out=taken)
    taken[:, ~is_diagonal] *= 2
    return taken


def _in_blocks(classes: Sequence[EnrolledClass]) -> list[list[EnrolledClass]]:
    """Group consecutive classes into blocks of about `BLOCK` values."""
    blocks: list[list[EnrolledClass]] = [[]]
    size = 0
    for enrolled in classes:
        if blocks[-1] and size + enrolled.rows.size > BLOCK:
            blocks.append([])
            size = 0
        blocks[-1].append(enrolled)
        size += enrolled.rows.size
    return blocks


def energy(feature_maps: NDArray[np.floating]) -> Array:
    """Return the mean squared length (n,) of the locations of maps (n, r, d)."""
    return np.square(feature_maps, dtype=np.float64).sum(-1).mean(-1)


def pool_rows(feature_maps: NDArray[np.floating]) -> Array:
    """Return the supports' locations as one pool in float64: (k, r, d) to (p, d).

    Raises FrnError if the maps are empty or not finite.
    """
    pool = np.asarray(feature_maps, dtype=np.float64).reshape(-1, feature_maps.shape[-1])
    if pool.size == 0 or not np.isfinite(pool).all():
        raise FrnError(f"feature maps of shape {feature_maps.shape} must be finite and not empty")
    return pool


def leave_one_out(feature_maps: NDArray[np.floating], head: HeadParameters) -> Array:
    """Return the class error (k,) of each support (k, r, d), reconstructed by the others."""
    return left_out_location_error(feature_maps, head).mean(axis=1)


def left_out_location_error(feature_maps: NDArray[np.floating], head: HeadParameters) -> Array:
    """Return the squared error (k, r) of every location of supports (k, r, d), reconstructed by the others.

    Nothing reconstructs a single support. With A = S S^T + lam I, B = A^-1 and the blocks of image i, the ridge weights
    of its rows on the others' are -B_i^-1 B_(i, rest), so z.w and w.w of the low-rank distance are the diagonals of A_i
    - B_i^-1 and of B_i^-1 (B B)_i B_i^-1 - I. Lambda is that of k - 1 supports. Raises FrnError if the maps are not
    finite, and as for `_inverse`.
    """
    k, r, d = feature_maps.shape
    pool = pool_rows(feature_maps)
    images = pool.reshape(k, r, d)
    if k == 1:
        return np.square(images).sum(-1)
    lam = head.lam((k - 1) * r, d)
    if len(pool) <= d:
        inverse = _inverse(pool @ pool.T + lam * np.eye(len(pool)))
        rows = inverse.reshape(k, r, -1)
        blocks = np.stack([rows[i, :, i * r : (i + 1) * r] for i in range(k)])
        squared = rows @ rows.mT
    else:  # B = (I - S P S^T) / lam with P = (S^T S + lam I)^-1
        products = (pool @ _inverse(pool.T @ pool + lam * np.eye(d))).reshape(k, r, d)
        blocks = (np.eye(r) - products @ images.mT) / lam
        squared = (blocks - products @ products.mT) / lam
    return error_from_blocks(blocks, squared, images @ images.mT, lam, head.rho())


def error_from_blocks(block: Array, squared: Array, gram: Array, lam: float, rho: float) -> Array:
    """Return the errors (k, r) from the images' blocks of B, of B B and of S S^T, (k, r, r) each."""
    solved = _inverse(block)
    along = _diagonals(gram + lam * np.eye(block.shape[1]) - solved)  # z . w of each location
    length = np.vecdot(solved @ squared, solved) - 1  # w . w
    return _diagonals(gram) - 2 * rho * along + rho**2 * (along - lam * length)


def _inverse(systems: Array) -> Array:
    try:
        return np.asarray(np.linalg.inv(systems), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise FrnError(
            "the model is damaged: its features are so large, or so similar, that lambda has no effect"
        ) from error


def _diagonals(blocks: Array) -> Array:
    return np.diagonal(blocks, axis1=1, axis2=2)
