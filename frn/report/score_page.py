"""Page for `frn score --report`: a score on photos of known classes. This module does not need torch."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.evaluation.labelled import Answer, LabelledScore
from frn.images.boxes import box_name, split_box
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform, Pixels
from frn.inference.classifier import Classifier
from frn.inference.explanation import explain
from frn.report.explanation_picture import Crops
from frn.report.page import own_file, render, x, y
from frn.report.parts import SIDE, PartsOfPage, thumbnail

THUMBNAIL = EvaluationTransform(size=128)
MAX_ERRORS = 60
"""Largest number of wrong predictions shown with an image."""


def score_page(
    found: LabelledScore, title: str, command: str, facts: Mapping[str, str], classifier: Classifier | None = None
) -> Iterator[str]:
    """Render one page with all numbers and a small image of each wrong prediction; `facts` come at the end.

    With the classifier, each image has the parts that decided for the predicted class and against the true one.
    """
    parts = PartsOfPage()
    sides = [("photos of these classes", found.known, found.false_rejections)]
    known = None
    if found.unknown:
        sides.append(("photos of other classes", found.unknown, found.true_positive_rate))
        chances = [np.array([answer.prediction.known for answer in part]) for _, part, _ in sides]
        known = histograms(chances[0], chances[1], ("these classes", "others"))
    return render(
        "score.html",
        title,
        command,
        facts,
        found=found,
        per_class=[(c.name, c.photos, _share(c.recall), _share(c.precision)) for c in found.per_class],
        confusion=[(name, *row) for name, row in zip(found.classes, found.confusion.tolist(), strict=True)],
        unknown=[(what, len(part), _share(rejected)) for what, part, rejected in sides],
        known=known,
        wrong=((answer, *_shown(answer, classifier, parts)) for answer in found.errors[:MAX_ERRORS]),
        examples=parts.examples(classifier.extractor) if classifier else (),
        script=own_file("parts.js") if classifier else "",
    )


def histograms(known: NDArray[np.floating], unknown: NDArray[np.floating], names: tuple[str, str]) -> dict[str, object]:
    """Return the outlines of two histograms of fractions in [0, 1], and the fraction at the end of their axis."""
    # Number of columns of a histogram
    edges = np.linspace(0, 1, 31)
    shares = [np.histogram(values, edges)[0] / max(1, len(values)) for values in (known, unknown)]
    top = max(float(share.max()) for share in shares) or 1.0
    outlines = {}
    for kind, share in zip(("known", "unknown"), shares, strict=True):
        steps = [(at, value / top) for i, value in enumerate(share) for at in (edges[i], edges[i + 1])]
        outlines[kind] = " ".join(f"{x(at)},{y(height)}" for at, height in [(0, 0), *steps, (1, 0)])
    return {"outlines": outlines, "names": names, "top": top}


def _shown(
    answer: Answer, classifier: Classifier | None, parts: PartsOfPage
) -> tuple[Pixels | Image.Image | None, str, list[dict[str, Any]]]:
    """Return a photo's thumbnail, the sentence that explains its answer, and its deciding parts."""
    try:
        if classifier is None:
            return THUMBNAIL(open_image(answer.path)), "", []
        ((_, seen),) = classifier.read([answer.path], classifier.store)
        if isinstance(seen, FrnError):
            raise seen
        reasons, box = explain(classifier, seen.maps, against=answer.truth), answer.prediction.box
        file = answer.path if box is None else Path(box_name(str(split_box(answer.path)[0]), box))
        sentence = reasons.sentence(unknown=answer.prediction.unknown)
        return thumbnail(Crops(classifier.extractor, SIDE)(file)), sentence, parts.of(reasons)
    except FrnError:  # the photo has been deleted, so only the text is shown
        return None, "", []


def _share(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"
