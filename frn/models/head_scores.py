"""Run a trained head on numpy maps, for classification in torch."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from frn.models.model import load_model

Maps = NDArray[np.float32]


def head_logits(weights: Path) -> Callable[[Maps, Maps], Maps]:
    """Return a function from supports (way, k, r, d) and queries (n, r, d) to logits (n, way)."""
    head = load_model(weights).head

    def logits(support: Maps, query: Maps) -> Maps:
        with torch.inference_mode():
            found: Maps = head(torch.from_numpy(support), torch.from_numpy(query)).numpy()
        return found

    return logits
