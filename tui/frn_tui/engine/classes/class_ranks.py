"""Rank of each example's own class, by the errors under all classes; only new pairs are computed.

An error summed over locations is tr Q^T Q - <Q^T Q, V^T D V> for the rows V and signs D of a class. With d x d matrices
for each example and each class, all pairs are one product, far cheaper than reconstructing each location.

Shape letters: n examples, way classes, r locations, d channels.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from frn.features.feature_cache import Maps
from frn.ridge.enrolment import Array, EnrolledClass, Floats
from frn_tui.engine.worker_queues import Check

BLOCK = 64 << 20  # bytes of d x d matrices at a time, for examples and for classes
MAX_OPERATIONS = 6e9  # maximum number of multiplications per call, under a second; further pairs wait for the next call

Group = tuple[str, ...]


class ClassErrors:
    """Cache of the errors (n, way) of the classes in use."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._columns: dict[Group, int] = {}
        self._errors: Floats = np.zeros((0, 0), dtype=np.float32)

    def errors(
        self, groups: Sequence[Group], classes: Sequence[EnrolledClass], maps: Mapping[str, Maps], check: Check
    ) -> Array:
        """Return class errors (n, way) in the order of the keys in `groups`; pairs beyond the limit are NaN."""
        keys = [key for group in groups for key in group]
        errors, budget = self._known(keys, groups), MAX_OPERATIONS
        r, d = maps[keys[0]].shape
        step = max(1, BLOCK // (4 * d * d))
        missing = np.isnan(errors).sum(0)
        fresh = np.flatnonzero(missing == len(keys))
        others = np.flatnonzero((missing > 0) & (missing < len(keys)))
        others = others[missing[others].argsort()[::-1]]  # apart from new classes, which lack all photos
        for some in (group[first : first + step] for group in (fresh, others) for first in range(0, len(group), step)):
            if budget < 0:
                break
            weighed = ((one.rows * one.signs[:, None]).T @ one.rows for one in (classes[column] for column in some))
            taken: Floats = np.stack([*weighed]).reshape(len(some), -1)  # V^T D V
            rows = np.flatnonzero(np.isnan(errors[:, some]).any(1))
            for these in (rows[first : first + step] for first in range(0, len(rows), step)):
                budget -= len(these) * d * d * (r + len(some))
                if budget < 0:
                    break
                check()
                features = np.stack([maps[keys[row]] for row in these])
                gram: Floats = (features.mT @ features).reshape(len(these), -1)
                energy: Floats = np.einsum("nrd,nrd->n", features, features)
                errors[np.ix_(these, some)] = (energy[:, None] - gram @ taken.T) / np.float32(r)
        self._rows = {key: row for row, key in enumerate(keys)}
        self._columns = {group: column for column, group in enumerate(groups)}
        self._errors = errors
        return errors.astype(np.float64)

    def _known(self, keys: Sequence[str], groups: Sequence[Group]) -> Floats:
        errors = np.full((len(keys), len(groups)), np.nan, dtype=np.float32)
        rows = [(row, self._rows[key]) for row, key in enumerate(keys) if key in self._rows]
        columns = [(column, self._columns[group]) for column, group in enumerate(groups) if group in self._columns]
        if rows and columns:
            (new_rows, old_rows), (new_columns, old_columns) = np.transpose(rows), np.transpose(columns)
            errors[np.ix_(new_rows, new_columns)] = self._errors[np.ix_(old_rows, old_columns)]
        return errors
