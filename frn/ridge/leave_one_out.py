"""Leave-one-out: each support reconstructed from the others of its class, with one inverse, without torch.

Shape letters: k supports of a class, r locations, d channels, p = k r pool rows.
"""

import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.ridge.enrolment import Array, pool_rows
from frn.ridge.parameters import HeadParameters


def leave_one_out(feature_maps: NDArray[np.floating], head: HeadParameters) -> Array:
    """Return the class error (k,) of each support (k, r, d), reconstructed by the others, for k >= 2."""
    return left_out_location_error(feature_maps, head).mean(axis=1)


def left_out_location_error(feature_maps: NDArray[np.floating], head: HeadParameters) -> Array:
    """Return the squared error (k, r) of every location of supports (k, r, d), reconstructed by the others; k >= 2.

    With A = S S^T + lam I, B = A^-1 and the blocks of image i, the ridge weights of its rows on the others' are -B_i^-1
    B_(i, rest), so z.w and w.w of the low-rank distance are the diagonals of A_i - B_i^-1 and of B_i^-1 (B B)_i B_i^-1
    - I. Lambda is that of k - 1 supports. Raises FrnError if there are fewer than two supports, or the maps are not
    finite, and as for `_inverse`.
    """
    k, r, d = feature_maps.shape
    if k < 2:
        raise FrnError(f"leave-one-out needs at least two supports, not {k}")
    lam, pool = head.lam((k - 1) * r, d), pool_rows(feature_maps)
    images = pool.reshape(k, r, d)
    if len(pool) <= d:
        inverse = _inverse(pool @ pool.T + lam * np.eye(len(pool)))
        rows = inverse.reshape(k, r, -1)
        own = np.stack([rows[i, :, i * r : (i + 1) * r] for i in range(k)])
        squared = rows @ rows.mT
    else:  # B = (I - S P S^T) / lam with P = (S^T S + lam I)^-1
        products = (pool @ _inverse(pool.T @ pool + lam * np.eye(d))).reshape(k, r, d)
        own = (np.eye(r) - products @ images.mT) / lam
        squared = (own - products @ products.mT) / lam
    return error_from_blocks(own, squared, images @ images.mT, lam, head.rho())


def error_from_blocks(own: Array, squared: Array, gram: Array, lam: float, rho: float) -> Array:
    """Return the errors (k, r) from the images' blocks of B, of B B and of S S^T, (k, r, r) each."""
    solved = _inverse(own)
    along = _diagonals(gram + lam * np.eye(own.shape[1]) - solved)  # z . w of each location
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
