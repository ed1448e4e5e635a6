"""A score as a table with a row per photo. Free of torch."""

from frn.evaluation.labelled import LabelledScore
from frn.report.csv_rows import csv_text


def rows(found: LabelledScore) -> list[dict[str, object]]:
    """A row per photo: its class, what it was called, the probability of each class."""
    return [
        {
            "image": str(answer.path).encode("utf-8", "backslashreplace").decode(),
            "truth": answer.truth,
            "label": answer.label,
            "right": int(answer.right),
            "probability": f"{answer.probability:.6f}",
            "explained": round(answer.explained, 6),
            "unknown": int(answer.prediction.unknown),
            **{f"p({name})": f"{share:.6f}" for name, share in answer.prediction.probabilities.items()},
        }
        for answer in (*found.known, *found.unknown)
    ]


def as_csv(found: LabelledScore) -> str:
    """`rows` under a head."""
    table = rows(found)
    return csv_text(list(table[0]), table)
