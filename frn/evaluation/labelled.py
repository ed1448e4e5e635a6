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

from frn.errors import FrnError
from frn.features.extractor import Embedded
from frn.inference.classifier import Classifier
from frn.inference.records import Answer, Score, Unreadable, answer_of, rounded
from frn.inference.unknown.rule import auroc
from frn.projects.names import is_no_class, match_names
from frn.projects.session import check_name

Z_95 = 1.959964  # normal quantile of a 95% interval


@dataclass(frozen=True, slots=True)
class NearCopy:
    """A photo that is a near copy of an example: re-saved or resized."""

    path: Path
    example: Path
    class_name: str

    def __str__(self) -> str:
        return f"{self.path}: skipped as a near copy of {self.example} (class {self.class_name!r})"


@dataclass(frozen=True, slots=True)
class LabelledScore:
    """All answers and their statistics. Fractions are between 0 and 1."""

    classes: tuple[str, ...]
    known: Sequence[Answer]  # photos of the enrolled classes
    unknown: Sequence[Answer]  # photos of other classes
    examples: Sequence[Path]  # photos that are skipped because they are examples of a class
    broken: Sequence[tuple[Path, FrnError]]
    near_copies: Sequence[NearCopy] = ()  # photos that are skipped because they are near copies of an example
    notes: Sequence[str] = ()
    """Notes on folders whose name matches a class only loosely or not at all, and on classes without photos."""

    @property
    def records(self) -> list[Answer | Unreadable]:
        """Return one record per photo, also of those that cannot be read."""
        unreadable = (Unreadable(image=str(path), error=str(error)) for path, error in self.broken)
        return [*self.known, *self.unknown, *unreadable]

    def record(
        self, classes: str, labelled: str, expected: Mapping[str, float | str], head: Mapping[str, float]
    ) -> Score:
        """Return all numbers, which JSON, page and terminal show; fractions without photos are null."""
        at = {name: index for index, name in enumerate(self.classes)}
        confusion = np.zeros((len(at), len(at)), dtype=np.int64)  # photos of each class (rows) called each class
        for answer in self.known:
            confusion[at[str(answer.truth)], at[answer.label]] += 1
        photos, called, hits = (each.tolist() for each in (confusion.sum(1), confusion.sum(0), confusion.diagonal()))
        per_class = {
            name: {
                "photos": photos[i],
                "right": hits[i],
                "recall": hits[i] / photos[i] if photos[i] else math.nan,
                "precision": hits[i] / called[i] if called[i] else math.nan,
            }
            for name, i in at.items()
        }
        bins = reliability(
            [answer.probability for answer in self.known], [answer.label == answer.truth for answer in self.known]
        )
        known, unknown = (np.array([answer.known for answer in side], float) for side in (self.known, self.unknown))
        right, count = int(confusion.trace()), len(known)
        wrong = [answer for answer in self.known if answer.label != answer.truth]
        numbers = {
            "classes": classes,
            "labelled": labelled,
            "photos": count,
            "accuracy": right / count,
            "interval": wilson(right, count),
            "per_class": per_class,
            "confusion": confusion.tolist(),
            "calibration_error": sum(each["photos"] * abs(each["said"] - each["right"]) for each in bins) / count,
            "reliability": bins,
            "false_rejections": _rejected(self.known),
            "unknown": len(unknown),
            "true_positive_rate": _rejected(self.unknown),
            "auroc": auroc(known, unknown) if len(unknown) else math.nan,
            "expected": expected,
            "wrong": msgspec.to_builtins(sorted(wrong, key=lambda answer: -answer.probability)),
            "examples_skipped": len(self.examples),
            "near_copies": {str(each.path): str(each.example) for each in self.near_copies},
            "transductive": self.known[0].transductive is True,
            "broken": [{"image": str(path), "error": str(error)} for path, error in self.broken],
            "head": head,
        }
        return msgspec.convert(rounded(numbers), Score)


def reliability(probabilities: Sequence[float], right: Sequence[bool]) -> list[dict[str, float]]:
    """Return photos, mean probability and accuracy of answers, in those of ten bins of probability that have any."""
    said, correct = np.array(probabilities), np.array(right)
    places = np.minimum((said * 10).astype(np.int64), 9)
    chosen = [places == place for place in np.unique(places)]
    return [{"photos": int(c.sum()), "said": float(said[c].mean()), "right": float(correct[c].mean())} for c in chosen]


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
            else:
                errors = classifier.scorer.class_errors(outcome.maps[None], [None])
                (twin,) = classifier.near_copies([outcome.look], errors)
                if twin is None:
                    yield truth, path, outcome
                else:
                    near_copies.append(NearCopy(path, twin.path, holders[twin.key][0].name))

    remaining = queries()
    while batch := list(islice(remaining, None if transductive else classifier.extractor.batch)):
        embedded = [seen for _, _, seen in batch]
        predictions = classifier.predictions(embedded, transductive=transductive, copies=False)
        for (truth, path, seen), prediction in zip(batch, predictions, strict=True):
            answers[truth in names].append(answer_of(str(path), replace(prediction, box=seen.box), truth=truth))
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
    return sum(each.unknown for each in answers) / len(answers) if answers else math.nan


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (", ..." if len(listed) > 5 else "")
