"""Scores of any head from numpy maps, for heads without a closed form.

Shape letters: way classes, k supports of a class, r locations per map, d channels, n queries.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from frn.models.model import load_model

Maps = NDArray[np.float32]
HeadScores = Callable[[Sequence[Maps], Maps], NDArray[np.float64]]


def head_scores(weights: Path) -> HeadScores:
    """Return a function from each class's supports (k, r, d) and queries (n, r, d) to log-probabilities (n, way).

    A head takes the same number of supports for each class, so those of smaller classes are repeated.
    """
    head = load_model(weights).head

    def log_probabilities(pools: Sequence[Maps], queries: Maps) -> NDArray[np.float64]:
        if len(pools) == 1:
            return np.zeros((len(queries), 1))
        most = max(map(len, pools))
        support = np.stack([pool[np.arange(most) % len(pool)] for pool in pools])
        with torch.inference_mode():
            logits = head(torch.from_numpy(support), torch.from_numpy(queries))
            found: NDArray[np.float64] = logits.double().log_softmax(1).numpy()
        return found

    return log_probabilities
