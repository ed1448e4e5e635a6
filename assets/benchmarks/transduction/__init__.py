"""Transductive few-shot methods on pooled features, one method a file.

Each file has `label`, which takes supports (way, shot, d) and queries (q, d) and returns the shares (q, way) of the
classes for each query. Parameters are the published ones for 5 classes and 75 queries.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def unit(vectors: Floats) -> Floats:
    """Scale vectors (..., d) to unit length."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def softmax(logits: Floats) -> Floats:
    """Return probabilities (q, way)."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def squared_distances(vectors: Floats, centres: Floats) -> Floats:
    """Return the squared distances (n, m) of vectors (n, d) from centres (m, d)."""
    return np.square(vectors[:, None] - centres).sum(-1)
