"""PADDLE: soft k-means with a penalty on the number of classes in use (Martin et al., NeurIPS 2022)."""

import numpy as np

from transduction import Floats, softmax, squared_distances

PENALTY, STEPS = 1.0, 100  # weight of the penalty relative to the number of queries, as in the authors' settings


def label(supports: Floats, queries: Floats) -> Floats:
    """Return shares (q, way) after alternating between shares, their proportions and class centres."""
    spread = np.ptp(queries, axis=0)
    scale = 1 / np.where(spread == 0, 1, spread)
    supports, queries = supports * scale, queries * scale
    centres, preference = supports.mean(1), np.zeros(len(supports))
    for _ in range(STEPS):
        shares = softmax(PENALTY * preference - squared_distances(queries, centres) / 2)
        preference = np.log(shares.mean(0) + 1e-6) + 1
        centres = (shares.T @ queries + supports.sum(1)) / (shares.sum(0) + supports.shape[1])[:, None]
    return shares
