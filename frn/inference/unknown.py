"""Explained energy, R^2 of the reconstruction, and the threshold below which a photo is none of the classes.

Errors grow with the features, so they cannot be compared between photos; R^2 can. For a query map Q with locations q
and its reconstruction Q_c by class c

    explained = R^2 = 1 - <Q, Q_c> / mean |q|^2

with <Q, Q_c> of Eq. 4; unlike in statistics, the energy is not centred. A photo is unknown where no class reaches the
threshold. That comes from the supports: each is left out and rebuilt by the rest of its class, and the threshold is
what all but a few of them reach. One support less explains a little less, so in use even fewer of the known photos
fall below it.

Shape letters: way classes, k supports of a class, r locations, d channels, q queries.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frn.ridge.leave_one_out import leave_one_out
from frn.ridge.parameters import HeadParameters

FALSE_REJECTION_RATE = 0.05
"""Share of left-out supports that may fall below the calibrated threshold."""

Shares = NDArray[np.float64]


def explained(errors: NDArray[np.floating], queries: NDArray[np.floating]) -> Shares:
    """R^2 of each query's reconstruction by each class, at least 0, (q, way): from errors (q, way) and maps (q, r, d).

    A map that is zero everywhere has nothing to explain and gets 0.
    """
    energy = np.square(queries, dtype=np.float64).sum(-1).mean(-1)[:, None]
    shares: Shares = 1 - np.divide(errors, energy, out=np.ones(errors.shape), where=energy > 0)
    return shares.clip(0)


def leave_one_out_explained(feature_maps: NDArray[np.floating], head: HeadParameters) -> Shares:
    """What the other supports of a class explain of each: (k, r, d), k >= 2, to (k,)."""
    return explained(leave_one_out(feature_maps, head)[:, None], feature_maps)[:, 0]


def calibrate(held_out: Sequence[Shares]) -> float:
    """The threshold that all but `FALSE_REJECTION_RATE` of the left-out supports of all classes reach.

    Where no class has two supports, nothing is known of their spread, and the threshold is 0: no photo is unknown.
    """
    return float(np.quantile(np.concatenate(held_out), FALSE_REJECTION_RATE)) if held_out else 0.0
