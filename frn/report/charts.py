"""Numbers for the charts of `templates/charts.html`."""

import numpy as np
from numpy.typing import NDArray

COLUMNS = 30
"""Number of columns of a histogram."""


def x(share: float) -> float:
    """Return the horizontal position of a fraction of the chart's width, in chart units."""
    return round(44 + 354 * float(share), 1)


def y(share: float) -> float:
    """Return the vertical position of a fraction of the chart's height, from the top."""
    return round(220 - 198 * float(share), 1)


def histograms(known: NDArray[np.floating], unknown: NDArray[np.floating], names: tuple[str, str]) -> dict[str, object]:
    """Return the outlines of two histograms of fractions in [0, 1], and the fraction at the end of their axis."""
    edges = np.linspace(0, 1, COLUMNS + 1)
    shares = [np.histogram(values, edges)[0] / max(1, len(values)) for values in (known, unknown)]
    top = max(float(share.max()) for share in shares) or 1.0
    outlines = {}
    for kind, share in zip(("known", "unknown"), shares, strict=True):
        steps = [(at, value / top) for i, value in enumerate(share) for at in (edges[i], edges[i + 1])]
        outlines[kind] = " ".join(f"{x(at)},{y(height)}" for at, height in [(0, 0), *steps, (1, 0)])
    return {"outlines": outlines, "names": names, "top": top}
