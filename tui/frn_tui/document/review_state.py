"""Going through answers: which of them, in which order, and what has become of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from frn.inference.session import State, Support
from frn_tui.client.protocol import Answer, ClassScore
from frn_tui.document.queries import Query, best_score
from frn_tui.terminal.paths import natural_order
from frn_tui.terminal.text import percent

UNKNOWN, UNREADABLE = "unknown", "not readable"
NO_CLASS = "none of the classes"
"""Name and folder of unknown photos, if a class is itself called unknown."""
OTHER = "none of these"
"""Label and folder of photos that a person said are of no class."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """An answer, and what a person has said of the photo."""

    answer: Answer
    verdict: str
    """What the classes say, in a word or two."""
    label: str | None
    """Class that the photo is an example of, or `OTHER`, once somebody said so."""
    first: str | None
    """Verdict when it was asked about first."""
    is_seen: bool
    label_id: int | None = None
    """Id of the class that it is an example of."""

    @property
    def path(self) -> str:
        return self.answer["path"]

    @property
    def said(self) -> str:
        """The person's word if there is one, else the classes'."""
        return self.verdict if self.label is None else self.label

    @property
    def is_readable(self) -> bool:
        return "scores" in self.answer

    @property
    def is_unknown(self) -> bool:
        """Asked of the answer: a class may be called unknown as well."""
        return bool(self.answer.get("unknown"))

    @property
    def is_other(self) -> bool:
        """Return whether a person said that the photo is of none of the classes."""
        return self.label == OTHER and self.label_id is None

    @property
    def score(self) -> ClassScore | None:
        """The score of the class that is named; for an unknown photo, of the likeliest."""
        scores = self.answer.get("scores", [])
        of = self.label_id if self.label is not None else scores[0]["id"] if scores else None
        return next((score for score in scores if score["id"] == of), None)

    @property
    def certainty(self) -> str:
        """The probability of the class that is said; of an unknown photo nothing, as it is of none of them."""
        is_named = self.label is not None or not self.is_unknown
        return f"{self.score['probability']:.2f}" if self.score and is_named else ""

    @property
    def words(self) -> str:
        """The verdict with its certainty, or with the share that is explained of an unknown photo."""
        share = percent(self.score["explained"]) if self.score else ""
        return f"{self.said} {self.certainty or (share if self.label is None else '')}".rstrip()

    @property
    def is_changed(self) -> bool:
        """Return whether corrections have changed the answer."""
        return self.first is not None and self.verdict != self.first


def verdict(answer: Answer, names: Mapping[int, str]) -> str:
    """What an answer says, in a word or two."""
    if "scores" not in answer:
        return UNREADABLE
    return UNKNOWN if answer.get("unknown") else names.get(answer["scores"][0]["id"], "?")


def folder_of(item: Reviewed, names: Iterable[str]) -> str:
    """The folder that a photo is sorted into, beside those of classes with these names."""
    if item.is_other and OTHER in map(str.casefold, names):
        return NO_CLASS
    return verdict_beside(item, names) if item.label is None else item.label


def verdict_beside(item: Reviewed, names: Iterable[str]) -> str:
    """The verdict, told apart from classes with these names."""
    return NO_CLASS if item.is_unknown and UNKNOWN in map(str.casefold, names) else item.verdict


def margin(answer: Answer) -> float:
    """Probability of the likeliest class less that of the next."""
    shares = [score["probability"] for score in answer.get("scores", [])]
    return shares[0] - shares[1] if len(shares) > 1 else (1.0 if shares else -1.0)


def explained(answer: Answer) -> float:
    """What the likeliest class explains of the photo; -1 if nothing is known."""
    best = best_score(answer)
    return best["explained"] if best else -1.0


def rival(answer: Answer, names: Mapping[int, str]) -> str:
    """The class that comes second, and its probability."""
    scores = answer.get("scores", [])
    return f"{names.get(scores[1]['id'], '?')} {scores[1]['probability']:.2f}" if len(scores) > 1 else ""


def examples(state: State) -> dict[str, Support]:
    """All examples, by key."""
    return {support.key: support for entry in state.classes for support in entry.supports}


def example_names(state: State) -> dict[str, str]:
    """File names of all examples, by key."""
    return {key: support.path.name for key, support in examples(state).items()}


def nearest(answer: Answer, examples: Mapping[str, str]) -> str:
    """File name of the example, of the likeliest class, that looks most like the photo."""
    return examples.get(answer.get("nearest", ""), "")


def reviewed(query: Query, state: State) -> list[Reviewed]:
    """All answers, in the order of asking."""
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
    """How far one has come."""
    seen, labelled = sum(item.is_seen for item in items), sum(item.label is not None for item in items)
    changed = sum(item.is_changed for item in items)
    unknown, other = sum(item.is_unknown for item in items), sum(item.is_other for item in items)
    none = f" ({other} {OTHER})" if other else ""
    return (
        f"{seen} of {len(items)} seen, {changed} changed by corrections, {labelled} labelled{none}, {unknown} unknown"
    )


ORDERS: dict[str, Callable[[Reviewed], object] | None] = {
    "as asked": None,
    "least sure first": lambda item: margin(item.answer),
    "least explained first": lambda item: explained(item.answer),
    "by class": lambda item: item.said.casefold(),
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
    "not readable": lambda item: not item.is_readable,
}


@dataclass(slots=True)
class Arrangement:
    """Which answers there are to go through, and in which order.

    It stays as it was chosen while corrections change the answers: who goes from one to the next must not be led back.
    """

    order: str = "as asked"
    kind: str = "all"
    said: str = ""
    """Only answers that say this; empty: any."""
    wanted: str = ""
    """Text to find in the path or the verdict."""
    paths: list[str] = field(default_factory=list)
    """Paths of the answers, in order."""
    _order: list[str] = field(default_factory=list)
    _asked: frozenset[str] = frozenset()

    def choose(self, items: Sequence[Reviewed], **chosen: str) -> None:
        """Arrange again, with another order or choice."""
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
        """Arrange again only where other photos were asked about; leave out those that were dropped."""
        paths = {item.path for item in items}
        if not paths <= self._asked:
            self.choose(items)
        self.paths = [path for path in self._order if path in paths]

    @property
    def words(self) -> str:
        only = [word for word in ("" if self.kind == "all" else self.kind, self.said, self.wanted) if word]
        return " · ".join([self.order, *(f"only {word}" for word in only)])
