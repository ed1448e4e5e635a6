"""Charts as SVG that take their colours from the page, so that light and dark both read."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from frn.evaluation.tally import Calibration
from frn.report.page import escape

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 22, 22, 40
"""Margins, for the axes' numbers and titles."""
COLUMNS = 30
"""Columns of a histogram."""


def reliability(found: Calibration) -> str:
    """Share of right answers over the answers' probability: on the diagonal, a probability means what it says."""
    parts = [_axes("probability of the answer", "right answers")]
    parts.append(f'<line class="guide" x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"/>')
    bins = len(found.counts)
    for index, (count, confidence, accuracy) in enumerate(
        zip(found.counts, found.confidence, found.accuracy, strict=True)
    ):
        if not count:
            continue
        left, right = _x(index / bins) + 1, _x((index + 1) / bins) - 1
        title = f"{count:,} answers of {confidence:.0%} on average: {accuracy:.1%} right"
        parts.append(
            f'<rect class="bar" x="{left:.1f}" y="{_y(accuracy):.1f}" width="{right - left:.1f}" '
            f'height="{_y(0) - _y(accuracy):.1f}"><title>{title}</title></rect>'
        )
        parts.append(f'<circle class="dot" cx="{_x(confidence):.1f}" cy="{_y(accuracy):.1f}" r="3"/>')
    return _svg(parts, "Reliability diagram")


def histograms(known: NDArray[np.floating], unknown: NDArray[np.floating], names: tuple[str, str]) -> str:
    """Two histograms of shares in [0, 1] over each other, each as a part of its own sum."""
    edges = np.linspace(0, 1, COLUMNS + 1)
    shares = [np.histogram(values, edges)[0] / max(1, len(values)) for values in (known, unknown)]
    top = max(float(share.max()) for share in shares) or 1.0
    parts = [_axes("share explained by the best class", "of the queries", top=top)]
    for kind, share in zip(("known", "unknown"), shares, strict=True):
        steps = [(x, value / top) for i, value in enumerate(share) for x in (edges[i], edges[i + 1])]
        line = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in [(0, 0), *steps, (1, 0)])
        parts.append(f'<polygon class="{kind}" points="{line}"/>')
    for row, (kind, name) in enumerate(zip(("known", "unknown"), names, strict=True)):
        y = TOP + 4 + 18 * row
        parts.append(f'<rect class="{kind}" x="{WIDTH - RIGHT - 12}" y="{y}" width="12" height="12"/>')
        parts.append(f'<text class="end" x="{WIDTH - RIGHT - 18}" y="{y + 10}">{escape(name)}</text>')
    return _svg(parts, "Explained share of known and unknown queries")


def intervals(rows: Sequence[tuple[str, float, float]]) -> str:
    """Percentages with the half-widths of their intervals, a row each, on one scale."""
    low = min(mean - ci for _, mean, ci in rows)
    high = max(mean + ci for _, mean, ci in rows)
    low, high = max(0.0, 10 * np.floor(low / 10)), min(100.0, 10 * np.ceil(high / 10))
    high = high if high > low else low + 10
    height = TOP + 34 * len(rows) + BOTTOM - 12
    across = [LEFT + 30 + (WIDTH - RIGHT - LEFT - 30) * (value - low) / (high - low) for value in (low, high)]

    def x(value: float) -> float:
        return float(across[0] + (across[1] - across[0]) * (value - low) / (high - low))

    parts = []
    for value in np.linspace(low, high, 5):
        parts.append(f'<line class="grid" x1="{x(value):.1f}" y1="{TOP}" x2="{x(value):.1f}" y2="{height - 24}"/>')
        parts.append(f'<text class="middle" x="{x(value):.1f}" y="{height - 8}">{value:g} %</text>')
    for row, (name, mean, ci) in enumerate(rows):
        y = TOP + 17 + 34 * row
        parts.append(f'<text x="4" y="{y + 4}">{escape(name)}</text>')
        parts.append(f'<line class="span" x1="{x(mean - ci):.1f}" y1="{y}" x2="{x(mean + ci):.1f}" y2="{y}"/>')
        parts.append(
            f'<circle class="dot" cx="{x(mean):.1f}" cy="{y}" r="5"><title>{mean:.2f} ± {ci:.2f} %</title></circle>'
        )
    return _svg(parts, "Accuracy with 95% intervals", height)


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _axes(below: str, beside: str, *, top: float = 1.0) -> str:
    parts = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{_y(share):.1f}" x2="{WIDTH - RIGHT}" y2="{_y(share):.1f}"/>')
        parts.append(f'<text class="end" x="{LEFT - 6}" y="{_y(share) + 4:.1f}">{share * top:.0%}</text>')
        parts.append(f'<text class="middle" x="{_x(share):.1f}" y="{HEIGHT - BOTTOM + 16}">{share:.0%}</text>')
    parts.append(f'<text class="middle" x="{_x(0.5):.1f}" y="{HEIGHT - 6}">{escape(below)}</text>')
    parts.append(f'<text x="4" y="{TOP - 8}">{escape(beside)}</text>')
    return "".join(parts)


def _svg(parts: Sequence[str], label: str, height: float = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
