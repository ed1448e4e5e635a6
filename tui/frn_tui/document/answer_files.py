"""Records of reviewed answers for other programs; apart from the review, because few sessions export them."""

import math
from collections.abc import Iterator, Sequence

from frn.images.boxes import Box
from frn.inference.records import Answer, Prediction, Unreadable, answer_of, lines
from frn.projects.session import State
from frn_tui.document.review_state import Reviewed


def records(items: Sequence[Reviewed], state: State) -> Iterator[Answer | Unreadable]:
    """Yield the records of `frn classify`, with the final label of each photo."""
    holders = state.holders()
    for item in items:
        answer = item.answer
        if not item.is_readable:
            yield Unreadable(image=item.path, error=answer.get("reason", ""))
            continue
        scores = {score["id"]: score for score in answer["scores"]}
        by_name = {entry.name: scores[entry.id] for entry in state.classes if entry.id in scores}
        _, near = holders.get(answer.get("near_copy", ""), (None, None))
        prediction = Prediction(
            {name: score["probability"] for name, score in by_name.items()},
            {name: score["error"] for name, score in by_name.items()},
            {name: score["explained"] for name, score in by_name.items()},
            known=answer.get("known", math.nan),
            unknown=item.is_unknown,
            example_of=None if item.label_id is None else item.label,
            near_copy_of=near,
            transductive=answer.get("transductive", False),
            box=Box(*answer["box"]) if "box" in answer else None,
            searched=state.search != "none",
        )
        yield answer_of(item.path, prediction, final=item.said)


def export_text(suffix: str, items: Sequence[Reviewed], state: State) -> str:
    classes = [entry.name for entry in state.classes if entry.supports]
    boxes = ["box"] if state.search != "none" else []
    return "".join(lines(suffix, records(items, state), classes, "final", "example_of", "near_copy_of", *boxes))
