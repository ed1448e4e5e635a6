"""Near duplicates: examples whose feature maps have a cosine of at least `NEAR`.

Averaging a map over its locations (times sqrt r) is a projection, so two unit maps are at least as far apart as their
averages. Pairs are therefore searched among the averages, which have d numbers instead of r d, without missing any.
"""

from collections.abc import Mapping

import numpy as np

from frn.inference.feature_cache import Maps
from frn.ridge.enrolment import Floats
from frn_tui.engine.worker_queues import Check

NEAR = 0.92
"""Least cosine of near duplicates, measured with the shipped resnet12-small on pairs within a class.

Of 622,500 pairs in CIFAR-FS's test classes (250 photos each), 55 reach it; of the 40 most similar, about 30 look like
the same photo twice, the others show the same object. Of 311,250 pairs in Tiny-ImageNet's validation classes, none does
(the maximum is 0.884). These fractions of copies of the latter reach it: enlarged 1.5 to 2 times, JPEG of quality 75,
20 % brighter: all; shrunk to three quarters: 99 %; JPEG of quality 50: 65 %; cropped to 97, 95 and 90 % of each side:
89, 80 and 36 %; shrunk to half: 45 %; mirrored: 4 %. conv4 gives similar figures.
"""
BLOCK = 512
DISTANCE_TOLERANCE = 1e-5
"""Tolerance for float32 rounding."""


class NearDuplicates:
    """Search for near duplicates, with cached averages of the maps."""

    def __init__(self) -> None:
        self._averages: dict[str, Floats] = {}

    def find(self, maps: Mapping[str, Maps], check: Check) -> dict[str, str]:
        """Return the key of the most similar example for each example that has near duplicates."""
        keys = list(maps)
        self._averages = {key: self._averages[key] if key in self._averages else _average(maps[key]) for key in keys}
        averages = np.stack(list(self._averages.values()))
        lengths = np.square(averages).sum(1)
        best: dict[str, tuple[float, str]] = {}
        for first in range(0, len(keys), BLOCK):
            check()
            block = slice(first, first + BLOCK)
            apart = lengths[block, None] + lengths - 2 * averages[block] @ averages.T
            rows, columns = np.nonzero(apart <= 2 - 2 * NEAR + DISTANCE_TOLERANCE)
            for row, column in zip((rows + first).tolist(), columns.tolist(), strict=True):
                if row < column:
                    _note(best, keys[row], keys[column], maps)
        return {key: other for key, (_, other) in best.items()}


def _average(maps: Maps) -> Floats:
    """Return the average of a map (r, d), scaled to length one, times sqrt r."""
    length = float(np.linalg.norm(maps)) or 1.0
    average: Floats = maps.sum(0) / (np.float32(length) * np.sqrt(np.float32(len(maps))))
    return average


def _note(best: dict[str, tuple[float, str]], one: str, other: str, maps: Mapping[str, Maps]) -> None:
    product = float(np.vdot(maps[one], maps[other]))
    cosine = product / (float(np.linalg.norm(maps[one])) * float(np.linalg.norm(maps[other])) or 1.0)
    if cosine < NEAR:
        return
    for key, like in ((one, other), (other, one)):
        if key not in best or cosine > best[key][0]:
            best[key] = (cosine, like)
