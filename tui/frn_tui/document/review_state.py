"""Review of answers: selection, order, and state of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from frn.projects.names import natural_order
from frn.projects.session import State, Support
from frn_tui.client.protocol import ClassScore, QueryAnswer
from frn_tui.document.queries import Query, best_score
from frn_tui.terminal.text import count_of, percent

UNKNOWN, UNREADABLE = "unknown", "unreadable"
NO_CLASS = "none of the classes"  # name of unknown photos if a class is itself called "unknown"
OTHER = "none of these"  # label and folder of photos that the user marked as none of the classes


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An answer and the user's label of the photo."""

    answer: QueryAnswer
    verdict: str  # the classifier's answer in a word or two
    label: str | None  # class that the photo is an example of, or `OTHER` if the user said so
    is_seen: bool
    label_id: int | None = None  # id of the class that it is an example of
    nearest: Support | None = None  # the most similar example of the most likely class

    @property
    def path(self) -> str:
        return self.answer["path"]

    @property
    def said(self) -> str:
        return self.verdict if self.label is None else self.label

    @property
    def is_readable(self) -> bool:
        return "scores" in self.answer

    @property
    def is_unknown(self) -> bool:
        """Whether the answer is unknown; the name alone does not tell, since a class may be called unknown."""
        return bool(self.answer.get("unknown"))

    @property
    def is_other(self) -> bool:
        return self.label is not None and self.label_id is None

    @property
    def score(self) -> ClassScore | None:
        """Score of the answer's class; for an unknown photo, of the most likely one."""
        scores = self.answer.get("scores", [])
        of = self.label_id if self.label is not None else scores[0]["id"] if scores else None
        return next((score for score in scores if score["id"] == of), None)

    @property
    def certainty(self) -> str:
        """Probability of the answer's class; nothing for an unknown photo, which belongs to none of them."""
        is_named = self.label is not None or not self.is_unknown
        return f"{self.score['probability']:.2f}" if self.score and is_named else ""

    @property
    def words(self) -> str:
        """The verdict with its probability or, for an unknown photo, with how well it is known."""
        return f"{self.said} {self.certainty or (self.known if self.label is None else '')}".rstrip()

    @property
    def known(self) -> str:
        """Probability that the photo belongs to one of the classes; nothing if it cannot be known."""
        return percent(self.answer["known"]) if "known" in self.answer else ""

    @property
    def lead(self) -> float:
        """Difference between the probability of the answer, or label, and the largest of the other classes.

        A photo is not its own witness. So a negative lead means that the other photos contradict its label.
        """
        if self.score is None:
            return 1.0 if self.is_other else -1.0
        others = [score["probability"] for score in self.answer["scores"] if score is not self.score]
        return self.score["probability"] - max(others) if others else 1.0


def rival(answer: QueryAnswer, names: Mapping[int, str]) -> str:
    scores = answer.get("scores", [])
    return f"{names.get(scores[1]['id'], '?')} {scores[1]['probability']:.2f}" if len(scores) > 1 else ""


def reviewed(query: Query, state: State) -> list[Reviewed]:
    """Return all answers with their review state, in query order."""
    names = {entry.id: entry.name for entry in state.classes}
    unknown = NO_CLASS if UNKNOWN in map(str.casefold, names.values()) else UNKNOWN
    none = NO_CLASS if OTHER in map(str.casefold, names.values()) else OTHER
    labels: dict[str, tuple[str | None, int | None]] = {other.key: (none, None) for other in state.others}
    labels |= {support.key: (entry.name, entry.id) for entry in state.classes for support in entry.supports}
    items, holders = [], state.holders()
    for answer in query.answers:
        label, label_id = labels.get(answer.get("key", ""), (None, None))
        _, nearest = holders.get(answer.get("nearest", ""), (None, None))
        best = best_score(answer)
        said = UNREADABLE if best is None else names.get(best["id"], "?")
        verdict = unknown if answer.get("unknown") else said
        items.append(Reviewed(answer, verdict, label, answer["path"] in query.seen, label_id, nearest))
    return items


def summary(items: Sequence[Reviewed]) -> str:
    """Summarise the progress of the review."""
    seen, labelled = sum(item.is_seen for item in items), sum(item.label is not None for item in items)
    unknown, other = sum(item.is_unknown for item in items), sum(item.is_other for item in items)
    none = f" ({other} {OTHER})" if other else ""
    new = sum(not item.is_seen and item.label is None for item in items)
    return f"○ {new} new, ● {seen} seen, ◆ {labelled} labelled{none}, {unknown} unknown"


GOAL = 0.97  # fraction of right answers to which the title counts the keys
OPTIMISM = 1.2
"""Answers are wrong this many times as often as their probabilities state, because each is the largest of several.

Without it, the stated accuracy of four data sets was up to 4.5 points too high; it is within 2.7 points of the real one
(docs/lab/tasks.md).
"""


def effort(items: Sequence[Reviewed], page: int) -> str:
    """Describe how many keys are needed until most answers are right, or the fraction that already is.

    A key confirms a page of the least certain answers, and one corrects each wrong answer on it. A label is right, and
    an answer nearly with its probability (`OPTIMISM`). Unknown photos are not counted, except for the keys that their
    nearest classes take.
    """
    shown = sorted((item for item in items if item.is_readable), key=_certainty)
    doubts = [0.0 if i.label is not None else OPTIMISM * (1 - i.answer["scores"][0]["probability"]) for i in shown]
    stated = [item.label is not None or not item.is_unknown for item in shown]
    wrong = [doubt * is_stated for doubt, is_stated in zip(doubts, stated, strict=True)]
    if not any(stated):
        return ""
    pages = 0
    while sum(wrong[pages * page :]) > (1 - GOAL) * sum(stated):
        pages += 1
    done = f"about {percent(1 - sum(wrong) / sum(stated))} right"
    return f"about {count_of(pages + round(sum(doubts[: pages * page])), 'key')} to {percent(GOAL)}" if pages else done


def _certainty(item: Reviewed) -> tuple[int, float]:
    """Sort key of answers: those without a label, those with one, those that cannot be read; then by lead."""
    return 2 * (not item.is_readable) + (item.label is not None), item.lead


ORDERS: dict[str, Callable[[Reviewed], object] | None] = {
    "original order": None,
    "least certain first": _certainty,
    "least known first": lambda item: item.answer.get("known", -1.0),
    "by class": lambda item: item.said.casefold(),
    "least probable first": lambda item: item.score["probability"] if item.score else -1.0,
    "by main example": lambda item: item.answer.get("nearest", ""),
    "by rival": lambda item: [score["id"] for score in item.answer.get("scores", [])[1:2]],
    "by file": lambda item: natural_order(item.path),
}
KINDS: dict[str, Callable[[Reviewed], bool]] = {
    "all": lambda item: True,
    "not labelled": lambda item: item.label is None and item.is_readable,
    "unknown": lambda item: item.is_unknown,
    OTHER: lambda item: item.is_other,
    "known": lambda item: item.is_readable and not item.is_unknown,
    "unreadable": lambda item: not item.is_readable,
}


@dataclass(slots=True)
class Arrangement:
    """Selection and order of the answers to review.

    It ignores changes that corrections make to the answers, and photos that are classified later come last, so stepping
    through them never goes back.
    """

    order: str = "original order"
    kind: str = "all"
    said: str = ""  # only answers with this verdict or label; empty: any
    wanted: str = ""  # text to search in the path or the verdict
    paths: list[str] = field(default_factory=list)  # paths of the answers, in order
    held: int = 0  # so many at the start keep their places, because someone has gone through them
    _order: list[str] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)

    def choose(self, items: Sequence[Reviewed], **chosen: str) -> None:
        for name, value in chosen.items():
            setattr(self, name, value)
        self.paths = self._order = self._chosen(items)
        self.held = 0
        self._asked = {item.path for item in items}

    def _chosen(self, items: Sequence[Reviewed]) -> list[str]:
        """Return the paths of the selected items in the chosen order."""
        wanted = self.wanted.casefold()
        some = [
            item
            for item in items
            if KINDS[self.kind](item)
            and self.said in ("", item.said)
            and (not wanted or wanted in item.path.casefold() or wanted in item.said.casefold())
        ]
        if (key := ORDERS[self.order]) is not None:
            some.sort(key=key)  # type: ignore[arg-type]  # the keys of one order are alike
        return [item.path for item in some]

    def follow(self, items: Sequence[Reviewed]) -> None:
        """Append photos that were classified since, and omit those that were removed."""
        if fresh := [item for item in items if item.path not in self._asked]:
            self._order = self._order + self._chosen(fresh)
            self._asked |= {item.path for item in fresh}
        paths = {item.path for item in items}
        self.paths = [path for path in self._order if path in paths]

    def sort(self, items: Sequence[Reviewed]) -> None:
        """Sort photos that arrived in parts, or whose answers have changed; all that are listed stay."""
        if (key := ORDERS[self.order]) is not None:
            held = self.paths[: self.held]
            free = set(self._order).difference(held)
            some = sorted((item for item in items if item.path in free), key=key)  # type: ignore[arg-type]
            self._order = [*held, *(item.path for item in some)]
            self.follow(items)

    def moved(self, follow: Callable[[str], str]) -> None:
        """Replace each path by its new one, as `follow` returns it."""
        self._order, self._asked = list(map(follow, self._order)), set(map(follow, self._asked))

    @property
    def is_filtered(self) -> bool:
        return self.kind != "all" or bool(self.said or self.wanted)

    @property
    def words(self) -> str:
        only = [word for word in ("" if self.kind == "all" else self.kind, self.said, self.wanted) if word]
        return " · ".join([self.order, *(f"only {word}" for word in only)])
