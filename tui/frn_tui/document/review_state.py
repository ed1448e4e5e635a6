"""Review of answers: selection, order, and state of each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from frn.inference.session import State, Support
from frn_tui.client.protocol import Answer, ClassScore
from frn_tui.document.queries import Query, best_score
from frn_tui.terminal.paths import natural_order
from frn_tui.terminal.text import percent

UNKNOWN, UNREADABLE = "unknown", "unreadable"
NO_CLASS = "none of the classes"
"""Name and folder of unknown photos if a class is itself called "unknown"."""
DOUBTFUL = 0.7
"""Minimum lead in probability over the rival; below it, an answer is doubtful."""
OTHER = "none of these"
"""Label and folder of photos that the user marked as none of the classes."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An answer and the user's label of the photo."""

    answer: Answer
    verdict: str
    """The classifier's answer in a word or two."""
    label: str | None
    """Class that the photo is an example of, or `OTHER` if the user said so."""
    first: str | None
    """Verdict of the first answer."""
    is_seen: bool
    label_id: int | None = None
    """Id of the class that it is an example of."""

    @property
    def path(self) -> str:
        return self.answer["path"]

    @property
    def said(self) -> str:
        """The user's label if there is one, otherwise the classifier's verdict."""
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
        """Return whether the user marked the photo as none of the classes."""
        return self.label == OTHER and self.label_id is None

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
        """The verdict with its probability or, for an unknown photo, with its explained share."""
        share = percent(self.score["explained"]) if self.score else ""
        return f"{self.said} {self.certainty or (share if self.label is None else '')}".rstrip()

    @property
    def is_doubtful(self) -> bool:
        """Return whether the photo has no label, and is unknown or hardly more probable than the rival class."""
        return self.is_readable and self.label is None and (self.is_unknown or margin(self.answer) < DOUBTFUL)

    @property
    def is_changed(self) -> bool:
        """Whether corrections have changed the answer."""
        return self.first is not None and self.verdict != self.first


def verdict(answer: Answer, names: Mapping[int, str]) -> str:
    """Describe an answer in a word or two."""
    if "scores" not in answer:
        return UNREADABLE
    return UNKNOWN if answer.get("unknown") else names.get(answer["scores"][0]["id"], "?")


def folder_of(item: Reviewed, names: Iterable[str]) -> str:
    """Return the folder into which a photo is sorted, given the classes' names."""
    if item.is_other and OTHER in map(str.casefold, names):
        return NO_CLASS
    return verdict_beside(item, names) if item.label is None else item.label


def verdict_beside(item: Reviewed, names: Iterable[str]) -> str:
    """Return the verdict, distinguishable from these class names."""
    return NO_CLASS if item.is_unknown and UNKNOWN in map(str.casefold, names) else item.verdict


def margin(answer: Answer) -> float:
    """Return the difference between the two largest probabilities."""
    shares = [score["probability"] for score in answer.get("scores", [])]
    return shares[0] - shares[1] if len(shares) > 1 else (1.0 if shares else -1.0)


def explained(answer: Answer) -> float:
    """Return the fraction that the most likely class explains; -1 if it is unknown."""
    best = best_score(answer)
    return best["explained"] if best else -1.0


def rival(answer: Answer, names: Mapping[int, str]) -> str:
    """Return the second most likely class with its probability."""
    scores = answer.get("scores", [])
    return f"{names.get(scores[1]['id'], '?')} {scores[1]['probability']:.2f}" if len(scores) > 1 else ""


def examples(state: State) -> dict[str, Support]:
    """All examples, by key."""
    return {support.key: support for entry in state.classes for support in entry.supports}


def example_names(state: State) -> dict[str, str]:
    """Return the file names of all examples, by key."""
    return {key: support.path.name for key, support in examples(state).items()}


def nearest(answer: Answer, examples: Mapping[str, str]) -> str:
    """Return the file name of the most similar example of the most likely class."""
    return examples.get(answer.get("nearest", ""), "")


def reviewed(query: Query, state: State) -> list[Reviewed]:
    """Return all answers with their review state, in query order."""
    names = {entry.id: entry.name for entry in state.classes}
    labels = {support.key: entry.name for entry in state.classes for support in entry.supports}
    labels |= {other.key: OTHER for other in state.others}
    ids = {support.key: entry.id for entry in state.classes for support in entry.supports}
    return [
        Reviewed(
            answer,
            verdict(answer, names),
            labels.get(answer.get("key", "")),
            verdict(query.first[answer["path"]], names) if answer["path"] in query.first else None,
            answer["path"] in query.seen,
            ids.get(answer.get("key", "")),
        )
        for answer in query.answers
    ]


def summary(items: Sequence[Reviewed]) -> str:
    """Summarise the progress of the review."""
    seen, labelled = sum(item.is_seen for item in items), sum(item.label is not None for item in items)
    changed = sum(item.is_changed for item in items)
    unknown, other = sum(item.is_unknown for item in items), sum(item.is_other for item in items)
    none = f" ({other} {OTHER})" if other else ""
    more = f", {changed} changed after corrections" if changed else ""
    return f"{seen} seen, {labelled} labelled{none}, {unknown} unknown{more}"


ORDERS: dict[str, Callable[[Reviewed], object] | None] = {
    "original order": None,
    "least certain first": lambda item: margin(item.answer),
    "least explained first": lambda item: explained(item.answer),
    "by class": lambda item: item.said.casefold(),
    "least probable first": lambda item: item.score["probability"] if item.score else -1.0,
    "by nearest example": lambda item: item.answer.get("nearest", ""),
    "by rival": lambda item: [score["id"] for score in item.answer.get("scores", [])[1:2]],
    "by file": lambda item: natural_order(item.path),
}
KINDS: dict[str, Callable[[Reviewed], bool]] = {
    "all": lambda item: True,
    "not labelled": lambda item: item.label is None and item.is_readable,
    "unknown": lambda item: item.is_unknown,
    OTHER: lambda item: item.is_other,
    "known": lambda item: item.is_readable and not item.is_unknown,
    "changed": lambda item: item.is_changed,
    "unreadable": lambda item: not item.is_readable,
}


@dataclass(slots=True)
class Arrangement:
    """Selection and order of the answers to review.

    It ignores changes that corrections make to the answers, so stepping through them never goes back.
    """

    order: str = "original order"
    kind: str = "all"
    said: str = ""
    """Only answers with this verdict or label; empty: any."""
    wanted: str = ""
    """Text to search in the path or the verdict."""
    paths: list[str] = field(default_factory=list)
    """Paths of the answers, in order."""
    _order: list[str] = field(default_factory=list)
    _asked: frozenset[str] = frozenset()

    def choose(self, items: Sequence[Reviewed], **chosen: str) -> None:
        """Change the selection or order and apply it."""
        for name, value in chosen.items():
            setattr(self, name, value)
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
        self.paths = self._order = [item.path for item in some]
        self._asked = frozenset(item.path for item in items)

    def follow(self, items: Sequence[Reviewed]) -> None:
        """Arrange again only if different photos were classified; omit those that were removed."""
        paths = {item.path for item in items}
        if not paths <= self._asked:
            self.choose(items)
        self.paths = [path for path in self._order if path in paths]

    @property
    def is_filtered(self) -> bool:
        return self.kind != "all" or bool(self.said or self.wanted)

    @property
    def words(self) -> str:
        only = [word for word in ("" if self.kind == "all" else self.kind, self.said, self.wanted) if word]
        return " · ".join([self.order, *(f"only {word}" for word in only)])
