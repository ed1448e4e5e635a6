"""Classifier results on photos of known classes: accuracy, calibration, unknown photos. Does not need torch.

A photo that is an example, or a near copy of one, is skipped, because it would be trivially correct. Photos
of classes that are not enrolled have no correct answer; they show how many such photos are rejected as unknown.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.features.extractor import Embedded
from frn.inference.classifier import Classifier, Prediction
from frn.inference.records import Answer as Record
from frn.inference.records import Score, Unreadable, answer_of, rounded
from frn.inference.unknown import auroc
from frn.projects.names import is_no_class, match_names
from frn.projects.session import check_name

Z_95 = 1.959964
"""Normal quantile of a 95% interval."""

Counts = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReliabilityDiagram:
    """Queries grouped by the probability of their answer, in bins of equal width."""

    counts: Counts
    confidence: Shares
    """Mean probability of a bin's answers; 0 for an empty bin."""
    accuracy: Shares
    """Fraction of a bin's answers that are correct; 0 for an empty bin."""

    @classmethod
    def of(cls, probability: Shares, right: NDArray[np.bool_], bins: int) -> "ReliabilityDiagram":
        """Compare the answers' probabilities with their correctness."""
        place = np.minimum((probability * bins).astype(np.int64), bins - 1)
        counts = np.bincount(place, minlength=bins)
        means = (np.bincount(place, values, bins) / np.maximum(counts, 1) for values in (probability, right))
        return cls(counts, *means)

    @property
    def error(self) -> float:
        """Expected calibration error: the gap between confidence and accuracy, weighted by the counts."""
        return float((self.counts * np.abs(self.confidence - self.accuracy)).sum() / max(1, self.counts.sum()))


@dataclass(frozen=True, slots=True)
class Answer:
    """The true class and the predicted class of one photo."""

    path: Path
    truth: str
    prediction: Prediction

    @property
    def label(self) -> str:
        """The predicted label."""
        return self.prediction.label

    @property
    def probability(self) -> float:
        """Probability of that class."""
        return self.prediction.probabilities[self.label]

    @property
    def right(self) -> bool:
        """Whether the prediction is correct."""
        return self.label == self.truth

    @property
    def record(self) -> Record:
        """The answer as in files and JSON."""
        return answer_of(str(self.path), self.prediction, truth=self.truth)


@dataclass(frozen=True, slots=True)
class NearCopy:
    """A photo that is a near copy of an example: re-saved or resized."""

    path: Path
    example: Path
    class_name: str

    def __str__(self) -> str:
        return f"{self.path}: skipped as a near copy of {self.example} (class {self.class_name!r})"


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Scores of one class; undefined fractions are NaN."""

    name: str
    photos: int
    right: int
    called: int
    """Photos of all classes that were predicted as this class."""

    @property
    def recall(self) -> float:
        """Fraction of the class's photos that were predicted correctly."""
        return self.right / self.photos if self.photos else math.nan

    @property
    def precision(self) -> float:
        """Fraction of the photos predicted as this class that belong to it."""
        return self.right / self.called if self.called else math.nan


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """All answers and their statistics. Fractions are between 0 and 1."""

    classes: tuple[str, ...]
    known: Sequence[Answer]
    """Photos of the enrolled classes."""
    unknown: Sequence[Answer]
    """Photos of other classes."""
    examples: Sequence[Path]
    """Photos that are skipped because they are examples of a class."""
    broken: Sequence[tuple[Path, FrnError]]
    near_copies: Sequence[NearCopy] = ()
    """Photos that are skipped because they are near copies of an example."""
    notes: Sequence[str] = ()
    """Notes on folders whose name matches a class only loosely or not at all, and on classes without photos."""

    @property
    def right(self) -> int:
        """Number of correctly classified photos of enrolled classes."""
        return sum(answer.right for answer in self.known)

    @property
    def accuracy(self) -> float:
        """Fraction of the photos of enrolled classes that were classified correctly."""
        return self.right / len(self.known)

    @property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval of the accuracy."""
        return wilson(self.right, len(self.known))

    @property
    def per_class(self) -> list[ClassScore]:
        """Scores of each enrolled class; photos of other classes do not count."""
        table = self.confusion
        return [
            ClassScore(name, int(table[i].sum()), int(table[i, i]), int(table[:, i].sum()))
            for i, name in enumerate(self.classes)
        ]

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Number of photos of each class (rows) that were predicted as each class (columns)."""
        at = {name: index for index, name in enumerate(self.classes)}
        table = np.zeros((len(at), len(at)), dtype=np.int64)
        for answer in self.known:
            table[at[answer.truth], at[answer.label]] += 1
        return table

    @property
    def errors(self) -> list[Answer]:
        """Wrong answers, the most confident first."""
        return sorted((a for a in self.known if not a.right), key=lambda a: -a.probability)

    @property
    def reliability(self) -> ReliabilityDiagram:
        """Accuracy of the answers by probability."""
        said = np.array([answer.probability for answer in self.known])
        # Number of probability bins for calibration
        return ReliabilityDiagram.of(said, np.array([answer.right for answer in self.known]), 10)

    @property
    def false_rejections(self) -> float:
        """Fraction of the photos of enrolled classes that are rejected as unknown."""
        return _rejected(self.known)

    @property
    def true_positive_rate(self) -> float:
        """Fraction of the other photos that are rejected as unknown; NaN without such photos."""
        return _rejected(self.unknown)

    @property
    def auroc(self) -> float:
        """Probability that a photo of an enrolled class has a larger `known` than another photo; NaN without others."""
        if not self.unknown:
            return math.nan
        return auroc(*([answer.prediction.known for answer in side] for side in (self.known, self.unknown)))

    @property
    def records(self) -> list[Record | Unreadable]:
        """Return one record per photo, also of those that cannot be read."""
        unreadable = (Unreadable(image=str(path), error=str(error)) for path, error in self.broken)
        return [*(answer.record for answer in (*self.known, *self.unknown)), *unreadable]

    def record(self, classes: str, labelled: str, expected: Mapping[str, float], head: Mapping[str, float]) -> Score:
        """Return all numbers, which JSON, page and terminal show; fractions without photos are null."""
        bins = self.reliability
        numbers = {
            "classes": classes,
            "labelled": labelled,
            "photos": len(self.known),
            "accuracy": self.accuracy,
            "interval": self.interval,
            "per_class": {
                entry.name: {name: getattr(entry, name) for name in ("photos", "right", "recall", "precision")}
                for entry in self.per_class
            },
            "confusion": self.confusion.tolist(),
            "calibration_error": bins.error,
            "reliability": [
                {"photos": int(photos), "said": float(said), "right": float(right)}
                for photos, said, right in zip(bins.counts, bins.confidence, bins.accuracy, strict=True)
                if photos
            ],
            "false_rejections": self.false_rejections,
            "unknown": len(self.unknown),
            "true_positive_rate": self.true_positive_rate,
            "auroc": self.auroc,
            "expected": expected,
            "wrong": [msgspec.to_builtins(answer.record) for answer in self.errors],
            "examples_skipped": len(self.examples),
            "near_copies": {str(each.path): str(each.example) for each in self.near_copies},
            "transductive": self.known[0].prediction.transductive,
            "broken": [{"image": str(path), "error": str(error)} for path, error in self.broken],
            "head": head,
        }
        return msgspec.convert(rounded(numbers), Score)


def score_labelled(
    classifier: Classifier,
    members: Mapping[str, Sequence[Path]],
    *,
    transductive: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> LabelledScore:
    """Classify the photos of each class and compare; with `transductive`, all photos refine the classes first.

    Raises FrnError if no class of `members` is enrolled, or none of their photos can be used.
    """
    names = tuple(classifier.names)
    wanted = [name for name in map(check_name, members) if name in names or not is_no_class(name)]
    called, notes = match_names(wanted, names)  # spelled like the class folders
    truths = [called.get(check_name(name), check_name(name)) for name, paths in members.items() for _ in paths]
    if not called:
        raise FrnError(
            f"no folder of the photos ({_some(members)}) is named after a class ({_some(names)}). Rename the folders."
        )
    if missing := [repr(name) for name in names if name not in called.values()]:
        notes.append(f"the folder has no photo of the class{'es' * (len(missing) > 1)} {', '.join(missing)}")
    holders = classifier.state.holders()
    files = (path for paths in members.values() for path in paths)
    answers: dict[bool, list[Answer]] = {True: [], False: []}
    examples: list[Path] = []
    near_copies: list[NearCopy] = []
    broken: list[tuple[Path, FrnError]] = []

    def queries() -> Iterator[tuple[str, Path, Embedded]]:
        read = classifier.read(files, classifier.store)
        for done, (truth, (path, outcome)) in enumerate(zip(truths, read, strict=True), 1):
            progress(done, len(truths))
            if isinstance(outcome, FrnError):
                broken.append((path, outcome))
            elif outcome.key in holders:
                examples.append(path)
            elif (twin := classifier.near_copies([outcome.look], [outcome.maps])[0]) is not None:
                near_copies.append(NearCopy(path, twin.path, holders[twin.key][0].name))
            else:
                yield truth, path, outcome

    remaining = queries()
    while batch := list(islice(remaining, None if transductive else classifier.extractor.batch)):
        embedded = [seen for _, _, seen in batch]
        predictions = classifier.predictions(embedded, transductive=transductive, copies=False)
        for (truth, path, seen), prediction in zip(batch, predictions, strict=True):
            answers[truth in names].append(Answer(path, truth, replace(prediction, box=seen.box)))
    if not answers[True]:
        raise FrnError(
            f"no photos to score: {len(examples)} are examples, {len(near_copies)} are near copies of an example, "
            f"{len(broken)} cannot be read. Pass photos that are not examples."
        )
    return LabelledScore(names, answers[True], answers[False], examples, broken, near_copies, notes)


def wilson(right: int, photos: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a fraction, which is accurate even for few photos and near 0 and 1."""
    share, reach = right / photos, Z_95**2 / photos
    centre = (share + reach / 2) / (1 + reach)
    half = Z_95 / (1 + reach) * math.sqrt(share * (1 - share) / photos + reach / (4 * photos))
    return max(0.0, centre - half), min(1.0, centre + half)


def _rejected(answers: Sequence[Answer]) -> float:
    return sum(answer.prediction.unknown for answer in answers) / len(answers) if answers else math.nan


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
