"""Examples that look almost the same: feature maps whose cosine is at least `NEAR`.

Averaging a map over its locations (times sqrt r) is a projection, so two unit maps are never further apart than their
averages are: pairs are sought among the averages, which have d numbers instead of r d, and none is missed.
"""

from collections.abc import Mapping

import numpy as np

from frn.inference.enrolment import Floats
from frn.inference.features import Maps
from frn_tui.engine.worker_queues import Request
from frn_tui.protocol import NEAR

BLOCK = 512
SLACK = 1e-5
"""Of float32."""


class NearDuplicates:
    """Finds them; remembers the average of each map."""

    def __init__(self) -> None:
        self._averages: dict[str, Floats] = {}

    def find(self, request: Request, maps: Mapping[str, Maps]) -> dict[str, str]:
        """For each example that has any, the key of the one most like it."""
        keys = list(maps)
        self._averages = {key: self._averages[key] if key in self._averages else _average(maps[key]) for key in keys}
        averages = np.stack(list(self._averages.values()))
        lengths = np.square(averages).sum(1)
        best: dict[str, tuple[float, str]] = {}
        for first in range(0, len(keys), BLOCK):
            request.check()
            block = slice(first, first + BLOCK)
            apart = lengths[block, None] + lengths - 2 * averages[block] @ averages.T
            rows, columns = np.nonzero(apart <= 2 - 2 * NEAR + SLACK)
            for row, column in zip((rows + first).tolist(), columns.tolist(), strict=True):
                if row < column:
                    _note(best, keys[row], keys[column], maps)
        return {key: other for key, (_, other) in best.items()}


def _average(maps: Maps) -> Floats:
    """Of a map (r, d) of length one, times sqrt r."""
    length = float(np.linalg.norm(maps)) or 1.0
    average: Floats = maps.sum(0) / (np.float32(length) * np.sqrt(np.float32(len(maps))))
    return average


def _note(best: dict[str, tuple[float, str]], one: str, other: str, maps: Mapping[str, Maps]) -> None:
    product = float(np.vdot(maps[one], maps[other]))
    cosine = product / (float(np.linalg.norm(maps[one])) * float(np.linalg.norm(maps[other])) or 1.0)
    if cosine < NEAR:
        return
    for key, twin in ((one, other), (other, one)):
        if key not in best or cosine > best[key][0]:
            best[key] = (cosine, twin)
