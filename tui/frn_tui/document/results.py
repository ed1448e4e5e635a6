"""Answers as text for other programs."""

import json
from collections.abc import Sequence

from frn.inference.session import State
from frn.report.csv_rows import csv_text
from frn_tui.document.queries import best_score
from frn_tui.document.review_state import Reviewed, example_names, nearest, rival, verdict_beside


def as_csv(items: Sequence[Reviewed], state: State, model: str) -> str:
    """Return the answers as CSV, one row per photo."""
    names, examples = {entry.id: entry.name for entry in state.classes}, example_names(state)
    columns = ["image", "verdict", "label", "probability", "explained", "error", "reason", "model"]
    columns += ["said_by_you", "rival", "nearest"]
    rows: list[dict[str, object]] = []
    for item in items:
        answer = item.answer
        path = answer["path"].encode(errors="surrogateescape").decode(errors="backslashreplace")
        told: list[object] = ["", "", "", ""]
        if best := best_score(answer):
            numbers = best["probability"], best["explained"], best["error"]
            told = [names.get(best["id"], "?"), *(round(number, 6) for number in numbers)]
        more = [item.label or "", rival(answer, names), nearest(answer, examples)]
        verdict = verdict_beside(item, names.values())
        rows.append(dict(zip(columns, [path, verdict, *told, answer.get("reason", ""), model, *more], strict=True)))
    return csv_text(columns, rows)


def as_json(items: Sequence[Reviewed], state: State, model: str, threshold: float) -> str:
    """Return the answers as JSON lines: the fields of `frn classify --json`, the model, and the user's label."""
    names, examples = {entry.id: entry.name for entry in state.classes}, example_names(state)
    lines: list[dict[str, object]] = []
    for item in items:
        answer = item.answer
        if "scores" not in answer:
            lines.append({"image": answer["path"], "error": answer.get("reason", "")})
            continue
        best = answer["scores"][0]
        lines.append(
            {
                "image": answer["path"],
                "label": names.get(best["id"], "?"),
                "probability": best["probability"],
                "probabilities": {names.get(s["id"], "?"): s["probability"] for s in answer["scores"]},
                "errors": {names.get(s["id"], "?"): s["error"] for s in answer["scores"]},
                "explained": best["explained"],
                "threshold": threshold,
                "unknown": answer.get("unknown", False),
                "model": model,
                "said_by_you": item.label,
                "nearest": nearest(answer, examples),
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)
