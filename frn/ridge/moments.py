"""Errors of whole query maps from their second moments, without an array over locations and classes.

A map enters Eq. 4 only through C_q = Q^T Q / r: its mean error is <C_q, B_c^2> with the class's residual operator B_c.
Moments pay off if there are few channels or many supports.

Shape letters: way classes, p pool rows, r locations per map, d channels.
"""

import torch
from torch import Tensor

from frn.ridge.matmul import matmul_nt, matmul_small
from frn.ridge.systems import squared_operator

BLOCK = 1 << 23
"""Number of second-moment values in memory at once; a large episode would need more than the network's maps."""


def second_moment(feature_maps: Tensor) -> Tensor:
    """Return C = Q^T Q / r of every feature map: (n, r, d) to (n, d, d)."""
    # Divided before the product: for a matrix times itself numpy uses a kernel that is slower at this size.
    return matmul_small(feature_maps.mT, feature_maps / feature_maps.shape[1])


def moment_error(query: Tensor, pool: Tensor, lam: Tensor, rho: Tensor) -> Tensor:
    """Return the mean squared error of query maps (queries, r, d) for pools (way, p, d): (queries, way)."""
    squared = squared_operator(pool, lam, rho).flatten(1)
    blocks = query.split(max(1, BLOCK // query.shape[-1] ** 2))
    return torch.cat([matmul_nt(squared, second_moment(maps).flatten(1)).mT for maps in blocks])
