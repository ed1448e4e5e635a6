"""Errors of whole query maps by their second moments: no term grows with locations times classes.

A map enters Eq. 4 only through C_q = Q^T Q / r: its mean error is <C_q, B_c^2> with the class's residual operator B_c.
That pays where channels are few.

Shape letters: way classes, r locations per map, d channels.
"""

from torch import Tensor

from frn.ridge.matmul import matmul_nt, matmul_small


def second_moment(feature_maps: Tensor) -> Tensor:
    """C = Q^T Q / r of every feature map: (n, r, d) to (n, d, d)."""
    # Divided before the product: numpy, given a matrix and itself, takes a kernel that is slower for maps this small.
    return matmul_small(feature_maps.mT, feature_maps / feature_maps.shape[1])


def moment_error(moment: Tensor, residual: Tensor) -> Tensor:
    """<C_q, B_c^2> of second moments (queries, d, d) and residual operators (way, d, d): (queries, way)."""
    residual = residual.to(moment.dtype)
    squared = matmul_small(residual, residual)  # B is symmetric
    return matmul_nt(squared.flatten(1), moment.flatten(1)).mT


def moments_are_cheaper(queries: int, r: int, d: int, *, way: int, p: int) -> bool:
    """Whether moments take fewer multiplications than one product of all locations with all classes."""
    by_location = queries * r * way * min(p, d) * d
    by_moment = queries * d * d * (r + way) + 8 * way * d**3  # factored, inverted and squared, in float64
    return by_moment < by_location
