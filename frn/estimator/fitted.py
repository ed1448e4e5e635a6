"""Answers of a fitted `FewShotClassifier`: photos to predictions, a batch at a time. Free of torch."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from frn.errors import FrnError
from frn.estimator.labels import Labels
from frn.estimator.photos import Photo, list_photos, open_photo
from frn.inference.classifier import Classifier, Prediction
from frn.inference.extractor import Embedded, Extractor, Prepared
from frn.inference.project import Document


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one photo."""

    photo: Any
    label: Any = None
    """The class that explains it best, whether it is known or not."""
    probability: float = math.nan
    """Probability of that class."""
    explained: float = math.nan
    """Share of the photo that that class explains."""
    unknown: bool = False
    """Whether that is less than the threshold."""
    error: FrnError | None = None
    """Why the photo could not be read; nothing else is known then."""


@dataclass(slots=True)
class Fitted:
    """Fitted classes. Nothing of it changes, so any number of threads may ask."""

    classifier: Classifier
    labels: Labels
    opened: tuple[object, ...]
    """The parameters that the extractor was opened for."""
    document: Document
    """The project that was loaded, with the keys that this version does not know."""

    def labels_of(self, names: Iterable[str]) -> Labels:
        """Labels of classes by their names inside."""
        at = {name: index for index, name in enumerate(self.classifier.classes)}
        found: Labels = self.labels[np.array([at[name] for name in names], dtype=int)]
        return found

    def predictions(self, photos: Iterable[Photo], transductive: bool = False) -> Iterator[Prediction]:
        """Predictions, a batch at a time. FrnError if a photo cannot be read."""
        for outcome in self.outcomes(list_photos(photos), transductive):
            if isinstance(outcome, FrnError):
                raise outcome
            yield outcome

    def each(self, photos: Iterable[Photo]) -> Iterator[Answer]:
        """As `FewShotClassifier.answers`."""
        asked, again = itertools.tee(photos)
        at = dict(zip(self.classifier.classes, self.labels.tolist(), strict=True))
        for photo, found in zip(again, self.outcomes(asked), strict=True):
            if isinstance(found, FrnError):
                yield Answer(photo, error=found)
            else:
                probability, explained = found.probabilities[found.label], found.explained[found.label]
                yield Answer(photo, at[found.label], probability, explained, found.unknown)

    def outcomes(self, photos: Iterable[Photo], transductive: bool = False) -> Iterator[Prediction | FrnError]:
        """Predictions and errors of photos, in order, a batch at a time; all of them at once if `transductive`."""
        return self.classifier.answers(embed(self.classifier.extractor, photos), transductive=transductive)


def embed(extractor: Extractor, photos: Iterable[Photo]) -> Iterator[Embedded | FrnError]:
    """Feature maps of photos, in order, a batch at a time; or why one cannot be read."""
    remaining = iter(photos)
    while batch := list(itertools.islice(remaining, extractor.batch)):
        yield from extractor.embed([_seen(extractor, photo) for photo in batch])


def embed_all(extractor: Extractor, photos: Iterable[Photo]) -> Iterator[Embedded]:
    """As `embed`, of a list of photos. FrnError if one of them cannot be read."""
    for found in embed(extractor, list_photos(photos)):
        if isinstance(found, FrnError):
            raise found
        yield found


def _seen(extractor: Extractor, photo: Photo) -> Prepared | FrnError:
    try:
        key, image = open_photo(photo)
        return Prepared(key, extractor.transform(image))
    except FrnError as error:
        return error
