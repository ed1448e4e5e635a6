"""The HTML page with the results of an evaluation."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from inspection.findings import Findings, HardImage
from numpy.typing import NDArray
from PIL import Image

from frn.inference.unknown import auroc
from frn.report.heat_maps import overlay
from frn.report.page import render
from frn.report.score_page import histograms

MATRIX = 40
"""Largest number of classes for which the whole confusion matrix is shown."""
PAIRS = 15


def evaluation_page(model: str, found: Sequence[Findings], command: str, facts: Mapping[str, str]) -> Iterator[str]:
    """Render the page of an evaluation, with one part for each shape of episodes.

    `facts` are shown beside the command that reproduces the page.
    """
    spans = [(f"{r['shot']}-shot", r["accuracy"], r["ci95"]) for r in (part.result for part in found)]
    parts = [_shape(part) for part in found]
    title = f"{model}: accuracy over episodes"
    return render(
        Path(__file__).with_name("evaluation.html"), title, command, facts, parts=parts, spans=spans, scale=scale(spans)
    )


def _shape(part: Findings) -> dict[str, object]:
    asked = part.confusion.sum(1)
    shares = part.confusion / np.maximum(asked, 1)[:, None]
    explained = None
    if part.explained:
        known, unknown = part.explained
        names = (f"of the episode's classes ({len(known):,})", f"of other classes ({len(unknown):,})")
        explained = histograms(known, unknown, names)
    return {
        "found": part,
        "title": f"{part.result['way']}-way {part.result['shot']}-shot",
        "name": f"shot-{part.result['shot']}",
        "calibration_error": f"{100 * part.calibration.error:.2f}%",
        "explained": explained,
        "auroc": f"{auroc(*part.explained):.1%}" if part.explained else "",
        "by_class": _by_class(part),
        "matrix": shares if len(part.names) <= MATRIX else None,
        "mistakes": _mistakes(part, shares),
        "overlays": [_overlays(image) for image in part.images],
    }


def _by_class(part: Findings) -> list[tuple[object, ...]]:
    """Return a row per class, the worst first: name, recall (number and text), precision, most frequent mistake."""
    mean, half_width = part.recall
    said = part.confusion.sum(0)
    rows: list[tuple[object, ...]] = []
    for c in np.argsort(np.nan_to_num(mean, nan=101), kind="stable"):
        others = np.where(np.arange(len(part.names)) == c, 0, part.confusion[c])
        share = "never drawn" if np.isnan(mean[c]) else f"{mean[c]:.1f} ± {half_width[c]:.1f}%"
        precision = f"{part.confusion[c, c] / said[c]:.1%}" if said[c] else ""
        confused = part.names[others.argmax()] if others.any() else ""
        rows.append((part.names[c], np.nan_to_num(mean[c]) / 100, share, precision, confused))
    return rows


def _mistakes(part: Findings, shares: NDArray[np.float64]) -> list[tuple[object, ...]]:
    mistakes = np.where(np.eye(len(shares), dtype=bool), 0, shares)
    pairs = np.argsort(-mistakes, axis=None, kind="stable")[:PAIRS]
    rows: list[tuple[object, ...]] = []
    for truth, answer in zip(*np.unravel_index(pairs, shares.shape), strict=True):
        if mistakes[truth, answer] > 0:
            counts = f"{part.confusion[truth, answer]:,} of {part.confusion[truth].sum():,}"
            rows.append((part.names[truth], part.names[answer], f"{mistakes[truth, answer]:.1%}", counts))
    return rows


def _overlays(hard: HardImage) -> list[tuple[str, Image.Image, str]]:
    """Return the photo with the error map of each class drawn over it, on one scale, and the mean errors."""
    if not hard.error_maps:
        return []
    maps = np.stack(list(hard.error_maps.values()))
    low, high = float(maps.min()), float(maps.max())
    crop = hard.mistake.crop
    return [(name, overlay(crop, m, low=low, high=high), f"{m.mean():.3g}") for name, m in hard.error_maps.items()]


def scale(rows: Sequence[tuple[str, float, float]]) -> tuple[float, float]:
    """Return the range in tens of percent that contains the intervals of all rows (mean second, half-width third)."""
    low = max(0.0, 10 * np.floor(min(mean - ci for _, mean, ci in rows) / 10))
    high = min(100.0, 10 * np.ceil(max(mean + ci for _, mean, ci in rows) / 10))
    return low, high if high > low else low + 10
