"""BD-CSPN: prototypes rectified by the queries, after a shift of their mean (Liu et al., ECCV 2020)."""

import numpy as np

from transduction import Floats, softmax, unit

SHARPNESS = 10.0  # temperature of the cosine similarities


def label(supports: Floats, queries: Floats) -> Floats:
    """Return shares (q, way) of classes, from cosine similarities with the rectified prototypes."""
    queries = queries + supports.mean((0, 1)) - queries.mean(0)
    prototypes = unit(supports.mean(1))
    every = np.concatenate([*supports, queries])
    shares = softmax(SHARPNESS * unit(every) @ prototypes.T)
    votes = shares * (shares.argmax(1)[:, None] == np.arange(len(supports)))  # a photo corrects only its likely class
    return softmax(SHARPNESS * unit(queries) @ unit(votes.T @ every).T)
