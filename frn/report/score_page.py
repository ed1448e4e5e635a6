"""`frn score --report`: a score on photos of known class, as a page. Free of torch."""

import contextlib
import html
import math
from collections.abc import Mapping

import numpy as np

from frn.errors import FrnError
from frn.evaluation.labelled import BINS, Answer, LabelledScore
from frn.evaluation.tally import Calibration
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.report.charts import histograms, reliability
from frn.report.page import figure, made_by, page, picture, section, table

THUMBNAIL = EvaluationTransform(size=128)
CLASS_HEADS = ("class", "photos", "recognised", "of those called so")
MAX_ERRORS = 60
"""Wrong answers with a picture of each."""


def score_page(found: LabelledScore, title: str, command: str, facts: Mapping[str, str]) -> str:
    """One page with all numbers, and a small picture of each wrong answer; `facts` go beside the command."""
    confusion = [(_text(n), *map(str, row)) for n, row in zip(found.classes, found.confusion.tolist(), strict=True)]
    per_class = [(_text(c.name), str(c.photos), _share(c.recall), _share(c.precision)) for c in found.per_class]
    sections = [
        _accuracy(found),
        section(
            "Each class", table(("class", "photos", "recognised", "of those called so"), per_class, label="Classes")
        ),
        section(
            "What is taken for what",
            table(("", *found.classes), confusion, label="Confusion"),
            note="Rows are true, columns are what photos were called.",
        ),
        section(
            "Can its probabilities be trusted?",
            reliability(_calibration(found)),
            note=f"Expected calibration error {100 * found.calibration_error:.1f} points: the gap between the "
            "probability of an answer and how often such answers are right.",
        ),
        _unknown(found),
        section(
            "Wrong answers",
            f'<div class="row">{"".join(map(_figure, found.errors[:MAX_ERRORS]))}</div>',
            note=f"{len(found.errors)}, the most certain first.",
        ),
    ]
    lead = '<p class="note"><a href="#made">how this was made</a></p>'
    return page(_plain(title), lead, [*sections, made_by(command, facts)])


def _accuracy(found: LabelledScore) -> str:
    low, high = found.interval
    told = f"{found.right} of {len(found.known)} photos; 95 % interval {low:.1%} to {high:.1%}."
    left_out = f"{len(found.examples)} photos that are examples themselves, {len(found.broken)} that cannot be read"
    return section("Accuracy", f"<p><strong>{found.accuracy:.1%}</strong>: {told}</p>", note=f"Left out: {left_out}.")


def _unknown(found: LabelledScore) -> str:
    rows = [("photos of these classes", str(len(found.known)), _share(found.false_rejections))]
    content, note = "", "Bring photos of other classes in a folder of another name to see how many are rejected."
    if found.unknown:
        rows.append(("photos of other classes", str(len(found.unknown)), _share(found.true_positive_rate)))
        shares = [np.array([answer.explained for answer in part]) for part in (found.known, found.unknown)]
        content, note = histograms(shares[0], shares[1], ("these classes", "others")), ""
    return section("Unknown", table(("", "photos", "called unknown"), rows, label="Unknown") + content, note=note)


def _calibration(found: LabelledScore) -> Calibration:
    """The bins as the reliability diagram takes them."""
    said = np.array([answer.probability for answer in found.known])
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    right = np.array([answer.right for answer in found.known], dtype=float)
    means = [np.bincount(bins, values, BINS) / np.maximum(counts, 1) for values in (said, right)]
    return Calibration(counts, *means)


def _figure(answer: Answer) -> str:
    shown = ""
    with contextlib.suppress(FrnError):  # gone since: the words are enough
        shown = picture(THUMBNAIL(open_image(answer.path)), _plain(answer.path.name))
    words = f"is <b>{_text(answer.truth)}</b>, called <b>{_text(answer.label)}</b> {answer.probability:.0%}"
    return figure(shown, f"{words}<br>{_text(answer.path.name)}", "photo")


def _share(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _text(value: object) -> str:
    return html.escape(_plain(value))


def _plain(value: object) -> str:
    """Names of files may hold bytes that are not text."""
    return str(value).encode("utf-8", "backslashreplace").decode()
