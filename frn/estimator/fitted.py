"""Predictions of a fitted `FewShotClassifier`, in batches. This module does not need torch."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from frn.errors import FrnError
from frn.estimator.labels import Labels
from frn.estimator.photos import Photo, check_flag, list_photos, open_photo, path_of
from frn.features.extractor import Embedded, Extractor, Prepared
from frn.inference.classifier import Classifier, Prediction
from frn.projects.project import Document
from frn.projects.session import State


@dataclass(frozen=True, slots=True)
class PhotoAnswer:
    """The answer to one photo, or the reason why there is none."""

    photo: Any
    label: Any = None  # the class that reconstructs the photo best, even if the photo is unknown
    probability: float = math.nan  # probability of that class
    explained: float = math.nan  # fraction of the photo that this class reconstructs
    known: float = math.nan  # probability that it belongs to one of the classes; NaN if every class has one photo
    unknown: bool = False  # whether this probability is below the threshold
    error: FrnError | None = None  # reason why the photo could not be read; the other fields are then unset
    example_of: Any = None  # class that has the photo as an example, which is then ignored: it is not its own witness


@dataclass(slots=True)
class Fitted:
    """Fitted classes, never modified, so any number of threads may use them."""

    classifier: Classifier
    labels: Labels
    opened: tuple[object, ...]  # parameters with which the extractor was opened
    document: Document  # the loaded project, including keys that this version does not know
    listed: State  # classes of the loaded project, also with missing photos, which stay in the project

    def labels_of(self, names: Iterable[str]) -> Labels:
        """Return the labels of classes by their internal names."""
        at = {name: index for index, name in enumerate(self.classifier.names)}
        labels: Labels = self.labels[np.array([at[name] for name in names], dtype=int)]
        return labels

    def predictions(self, photos: Iterable[Photo], transductive: bool = False) -> Iterator[Prediction]:
        """Yield predictions in batches. Raises FrnError if a photo cannot be read."""
        for outcome in self.outcomes(list_photos(photos), check_flag("transductive", transductive)):
            if isinstance(outcome, FrnError):
                raise outcome
            yield outcome

    def each(self, photos: Iterable[Photo]) -> Iterator[PhotoAnswer]:
        """Yield answers as `FewShotClassifier.answers` does."""
        listed, again = itertools.tee(photos)
        at = dict(zip(self.classifier.names, self.labels.tolist(), strict=True))
        for photo, outcome in zip(again, self.outcomes(listed), strict=True):
            if isinstance(outcome, FrnError):
                yield PhotoAnswer(photo, error=outcome)
            else:
                probability, explained = outcome.probabilities[outcome.label], outcome.explained[outcome.label]
                example_of = at.get(outcome.example_of) if outcome.example_of else None
                known, unknown = outcome.known, outcome.unknown
                yield PhotoAnswer(photo, at[outcome.label], probability, explained, known, unknown, None, example_of)

    def outcomes(self, photos: Iterable[Photo], transductive: bool = False) -> Iterator[Prediction | FrnError]:
        """Yield predictions and errors of photos, in order and in batches; all at once if `transductive`."""
        embedded = embed(self.classifier.extractor, photos, self.classifier)
        return self.classifier.answers(embedded, transductive=transductive)


def embed(
    extractor: Extractor, photos: Iterable[Photo], classifier: Classifier | None = None
) -> Iterator[Embedded | FrnError]:
    """Yield feature maps of photos, or errors, in order and in batches: those of their subjects for `classifier`."""
    remaining = iter(photos)
    while batch := list(itertools.islice(remaining, extractor.batch)):
        yield from extractor.embed([_seen(extractor, photo, classifier) for photo in batch])


def embed_all(
    extractor: Extractor, photos: Iterable[Photo], classifier: Classifier | None = None
) -> Iterator[Embedded]:
    """Embed a list of photos as `embed` does. Raises FrnError if one of them cannot be read."""
    for outcome in embed(extractor, list_photos(photos), classifier):
        if isinstance(outcome, FrnError):
            raise outcome
        yield outcome


def _seen(extractor: Extractor, photo: Photo, classifier: Classifier | None) -> Prepared | FrnError:
    searcher = classifier if classifier is not None and classifier.state.search != "none" else None
    is_file = isinstance(photo, str | Path)
    try:
        if searcher and is_file:
            photo = searcher.subject(path_of(photo))
        key, image = open_photo(photo)
        if searcher and not is_file:
            image = searcher.subject_in(image)
        source = path_of(photo) if is_file else image
        closer = extractor.closer
        wide = closer.transform(image) if closer and extractor.ahead else None
        return Prepared(key, extractor.transform(image), source if closer else None, wide)
    except FrnError as error:
        return error
