"""A score as files: a table with a row per photo, and one page that needs nothing else. Free of torch."""

import base64
import contextlib
import csv
import html
import io
import math
from collections.abc import Iterable, Sequence

from PIL import Image

from frn.errors import FrnError
from frn.evaluation.labelled import Answer, LabelledScore
from frn.images import EvaluationTransform, open_image

THUMBNAIL = EvaluationTransform(size=96)
MOST_ERRORS = 60
"""Wrong answers with a picture of each."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222;
       background: #fff }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
figure { display: inline-block; width: 11rem; margin: 0 .5rem 1rem 0; vertical-align: top; font-size: 13px;
         overflow-wrap: anywhere }
.wide { overflow-x: auto }
"""


def rows(found: LabelledScore) -> list[dict[str, object]]:
    """A row per photo: its class, what it was called, the probability of each class."""
    return [
        {
            "image": str(answer.path).encode("utf-8", "backslashreplace").decode(),
            "truth": answer.truth,
            "label": answer.label,
            "right": int(answer.right),
            "probability": f"{answer.probability:.6f}",
            "explained": f"{answer.explained:.6f}",
            "unknown": int(answer.prediction.unknown),
            **{f"p({name})": f"{share:.6f}" for name, share in answer.prediction.probabilities.items()},
        }
        for answer in (*found.known, *found.strangers)
    ]


def as_csv(found: LabelledScore) -> str:
    """`rows` under a head."""
    text, table = io.StringIO(), rows(found)
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def as_page(found: LabelledScore, title: str) -> str:
    """One HTML page with all numbers, and a small picture of each wrong answer."""
    low, high = found.interval
    per_class = [(c.name, c.photos, _share(c.recall), _share(c.precision)) for c in found.per_class]
    confusion = [(name, *row) for name, row in zip(found.classes, found.confusion.tolist(), strict=True)]
    bins = [(_share(b.said), b.photos, _share(b.right)) for b in found.reliability]
    unknown = [("photos of these classes", len(found.known), _share(found.missed))]
    if found.strangers:
        unknown.append(("photos of other classes", len(found.strangers), _share(found.caught)))
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p>Accuracy <strong>{found.accuracy:.1%}</strong>: {found.right} of {len(found.known)} photos; "
        f"95 % interval {low:.1%} to {high:.1%}. Left out: {len(found.examples)} photos that are examples themselves, "
        f"{len(found.broken)} that cannot be read.</p>",
        "<h2>Each class</h2>",
        _table(("class", "photos", "recognised", "of those called so"), per_class),
        "<h2>Confusion</h2><p>Rows are true, columns are what photos were called.</p>",
        _table(("", *found.classes), confusion),
        f"<h2>Calibration</h2><p>Expected calibration error: {100 * found.calibration_error:.1f} points.</p>",
        _table(("said", "photos", "right"), bins),
        "<h2>Unknown</h2>",
        _table(("", "photos", "called unknown"), unknown),
        f"<h2>Wrong answers</h2><p>{len(found.errors)}, the most certain first.</p>",
        *(_figure(answer) for answer in found.errors[:MOST_ERRORS]),
    ]
    head = f'<meta charset="utf-8"><title>{_text(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html>\n<html lang=en><head>{head}</head><body>\n" + "\n".join(parts) + "\n</body></html>\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    first = "".join(f"<th>{_text(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table><tr>{first}</tr>\n{body}</table></div>'


def _figure(answer: Answer) -> str:
    picture = ""
    with contextlib.suppress(FrnError):  # gone since: the words are enough
        small = io.BytesIO()
        Image.fromarray(THUMBNAIL(open_image(answer.path))).save(small, "JPEG", quality=80)
        data = base64.b64encode(small.getvalue()).decode()
        picture = f'<img alt="" width=96 height=96 src="data:image/jpeg;base64,{data}"><br>'
    words = f"is <b>{_text(answer.truth)}</b>, called <b>{_text(answer.label)}</b> {answer.probability:.0%}"
    return f"<figure>{picture}{words}<br>{_text(answer.path.name)}</figure>"


def _share(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _text(value: object) -> str:
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode())
