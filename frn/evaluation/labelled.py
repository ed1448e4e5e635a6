"""A classifier scored on photos whose class is known: accuracy, each class, calibration, unknown photos. Free of torch.

A photo that is itself an example of a class is skipped: it would be right, and say nothing. Photos of classes that are
not enrolled have no right answer; they tell how many of such photos are called unknown.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from frn.data.names import match_names
from frn.errors import FrnError
from frn.evaluation.tally import Calibration
from frn.inference.classifier import Classifier, Prediction
from frn.inference.feature_cache import Maps
from frn.inference.session import check_name
from frn.inference.unknown import auroc

BINS = 10
"""Bins of the probability, for calibration."""
Z_95 = 1.959964
"""Quantile of the normal distribution for an interval of 95 %."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One photo: what it is, and what it was called."""

    path: Path
    truth: str
    prediction: Prediction

    @property
    def label(self) -> str:
        """Return the predicted label."""
        return self.prediction.label

    @property
    def probability(self) -> float:
        """Probability of that class."""
        return self.prediction.probabilities[self.label]

    @property
    def explained(self) -> float:
        """Share of the photo that that class explains."""
        return self.prediction.explained[self.label]

    @property
    def right(self) -> bool:
        """Return whether that is its class."""
        return self.label == self.truth


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One class; shares are NaN if there is nothing to take one of."""

    name: str
    photos: int
    right: int
    called: int
    """Photos of all classes that were called this."""

    @property
    def recall(self) -> float:
        """Share of its photos that were called this."""
        return self.right / self.photos if self.photos else math.nan

    @property
    def precision(self) -> float:
        """Share of the photos called this that are of it."""
        return self.right / self.called if self.called else math.nan


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """All answers, and what follows from them. Shares are between 0 and 1."""

    classes: tuple[str, ...]
    """Names of the enrolled classes."""
    known: tuple[Answer, ...]
    """Photos of the enrolled classes."""
    unknown: tuple[Answer, ...]
    """Photos of other classes."""
    examples: tuple[Path, ...]
    """Left out: they are examples of a class themselves."""
    broken: tuple[FrnError, ...]
    """Why files could not be read."""
    notes: tuple[str, ...] = ()
    """Folders that are not called exactly like a class, and classes without photos."""

    @property
    def right(self) -> int:
        """Photos of enrolled classes that got their class."""
        return sum(answer.right for answer in self.known)

    @property
    def accuracy(self) -> float:
        """Share of the photos of enrolled classes that got their class."""
        return self.right / len(self.known)

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the accuracy, 95 %."""
        return wilson(self.right, len(self.known))

    @property
    def per_class(self) -> list[ClassScore]:
        """Each enrolled class; photos of other classes count nowhere."""
        table = self.confusion
        return [
            ClassScore(name, int(table[i].sum()), int(table[i, i]), int(table[:, i].sum()))
            for i, name in enumerate(self.classes)
        ]

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Photos of each class (rows) that were called each class (columns)."""
        at = {name: index for index, name in enumerate(self.classes)}
        table = np.zeros((len(at), len(at)), dtype=np.int64)
        for answer in self.known:
            table[at[answer.truth], at[answer.label]] += 1
        return table

    @property
    def errors(self) -> list[Answer]:
        """Wrong answers, the most certain first."""
        return sorted((a for a in self.known if not a.right), key=lambda a: -a.probability)

    @property
    def calibration(self) -> Calibration:
        """How often the answers of each probability are right."""
        said = np.array([answer.probability for answer in self.known])
        return Calibration.of(said, np.array([answer.right for answer in self.known]), BINS)

    @property
    def false_rejections(self) -> float:
        """Share of the photos of enrolled classes that are called unknown."""
        return sum(answer.prediction.unknown for answer in self.known) / len(self.known)

    @property
    def true_positive_rate(self) -> float:
        """Share of the other photos that are called unknown; NaN without any."""
        return (
            sum(answer.prediction.unknown for answer in self.unknown) / len(self.unknown) if self.unknown else math.nan
        )

    @property
    def auroc(self) -> float:
        """Chance that a photo of an enrolled class is more familiar than another one; NaN without any other."""
        if not self.unknown:
            return math.nan
        return auroc(
            *(np.array([answer.prediction.familiarity for answer in side]) for side in (self.known, self.unknown))
        )

    @property
    def rows(self) -> list[dict[str, object]]:
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
            for answer in (*self.known, *self.unknown)
        ]


def score_labelled(
    classifier: Classifier, members: Mapping[str, Sequence[Path]], *, transductive: bool = False
) -> LabelledScore:
    """Classify the photos of each class and compare; with `transductive`, all photos refine the classes first.

    FrnError if no class of `members` is enrolled, or none of the photos of those that are can be used.
    """
    names = tuple(classifier.classes)
    called, notes = match_names(map(check_name, members), names)  # as the classes' own folders
    truths = [called.get(check_name(name), check_name(name)) for name, paths in members.items() for _ in paths]
    if not called:
        raise FrnError(
            f"none of its folders ({_some(members)}) is called like one of the classes ({_some(names)}): nothing can "
            "be right"
        )
    notes += [f"the class {name!r} has no photo there" for name in names if name not in called.values()]
    holders = classifier.state.holders()
    files = (path for paths in members.values() for path in paths)
    answers: dict[bool, list[Answer]] = {True: [], False: []}
    examples: list[Path] = []
    broken: list[FrnError] = []

    def queries() -> Iterator[tuple[str, Path, Maps]]:
        read = classifier.extractor.read(files, store=classifier.store)
        for truth, (path, outcome) in zip(truths, read, strict=True):
            if isinstance(outcome, FrnError):
                broken.append(outcome)
            elif outcome.key in holders:
                examples.append(path)
            else:
                yield truth, path, outcome.maps

    remaining = queries()
    while batch := list(islice(remaining, None if transductive else classifier.extractor.batch)):
        maps = [maps for _, _, maps in batch]
        found = classifier.predict_all(maps, [None] * len(maps), transductive=transductive)
        for (truth, path, _), prediction in zip(batch, found, strict=True):
            answers[truth in classifier.classes].append(Answer(path, truth, prediction))
    if not answers[True]:
        raise FrnError(
            f"there is no photo to score: {len(examples)} are examples of the classes themselves, {len(broken)} cannot "
            "be read. Give photos that are no examples."
        )
    return LabelledScore(
        names, tuple(answers[True]), tuple(answers[False]), tuple(examples), tuple(broken), tuple(notes)
    )


def wilson(right: int, photos: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share: unlike the normal one it is right for few photos and near 0 and 1."""
    share, reach = right / photos, Z_95**2 / photos
    centre = (share + reach / 2) / (1 + reach)
    half = Z_95 / (1 + reach) * math.sqrt(share * (1 - share) / photos + reach / (4 * photos))
    return max(0.0, centre - half), min(1.0, centre + half)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
