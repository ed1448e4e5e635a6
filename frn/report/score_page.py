"""Page for `frn score --report`: a score on photos of known classes. This module does not need torch."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.images.boxes import Box, part_of
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform, Pixels
from frn.inference.classifier import Classifier
from frn.inference.explanation import explain
from frn.inference.records import Answer, Score, Unreadable
from frn.report.explanation_picture import Crops
from frn.report.page import own_file, render, x, y
from frn.report.parts import SIDE, PartsOfPage, thumbnail

THUMBNAIL = EvaluationTransform(size=128)
MAX_ERRORS = 60  # largest number of wrong predictions shown with an image


def score_page(
    score: Score,
    answers: Iterable[Answer | Unreadable],
    command: str,
    facts: Mapping[str, str],
    classifier: Classifier | None = None,
) -> Iterator[str]:
    """Render one page with all numbers and a small image of each wrong prediction; `facts` come at the end.

    With the classifier, each image has the parts that decided for the predicted class and against the true one.
    """
    parts = PartsOfPage()
    sides = [("photos of these classes", score.photos, _share(score.false_rejections))]
    known = None
    if score.unknown:
        sides.append(("photos of other classes", score.unknown, _share(score.true_positive_rate)))
        chances: dict[bool, list[float | None]] = {True: [], False: []}
        for answer in answers:
            if isinstance(answer, Answer):
                chances[answer.truth in score.per_class].append(answer.known)
        of_classes, of_others = (np.array(chances[side], dtype=float) for side in (True, False))
        known = histograms(of_classes, of_others, ("these classes", "others"))
    return render(
        "score.html",
        f"{score.classes} on {score.labelled}",
        command,
        facts,
        score=score,
        right=sum(entry.right for entry in score.per_class.values()),
        per_class=[
            (name, each.photos, _share(each.recall), _share(each.precision)) for name, each in score.per_class.items()
        ],
        confusion=[(name, *row) for name, row in zip(score.per_class, score.confusion, strict=True)],
        unknown=sides,
        known=known,
        wrong=((answer, *_shown(answer, classifier, parts)) for answer in score.wrong[:MAX_ERRORS]),
        examples=parts.examples(classifier.extractor) if classifier else (),
        script=own_file("parts.js") if classifier else "",
    )


def histograms(known: NDArray[np.floating], unknown: NDArray[np.floating], names: tuple[str, str]) -> dict[str, object]:
    """Return the outlines of two histograms of fractions in [0, 1], and the fraction at the end of their axis."""
    edges = np.linspace(0, 1, 31)  # number of columns of a histogram
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
    path, against = Path(answer.image), answer.truth if isinstance(answer.truth, str) else None
    try:
        if classifier is None:
            return THUMBNAIL(open_image(path)), "", []
        ((_, seen),) = classifier.read([path], classifier.store)
        if isinstance(seen, FrnError):
            raise seen
        reasons = explain(classifier, seen.maps, against=against)
        box = Box(*answer.box) if isinstance(answer.box, tuple) else None
        sentence = reasons.sentence(unknown=answer.unknown)
        return thumbnail(Crops(classifier.extractor, SIDE)(part_of(path, box))), sentence, parts.of(reasons)
    except FrnError:  # the photo has been deleted, so only the text is shown
        return None, "", []


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
