"""A classifier from a few images per class: a query goes to the enrolled class that rebuilds it best."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from frn.errors import FrnError
from frn.inference.enrolment import Bank, Enrolled, enroll, probabilities
from frn.inference.extractor import Extractor, Maps


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the classes say of one image."""

    probabilities: dict[str, float]
    """Sum to one over the classes (Eq. 9)."""
    errors: dict[str, float]
    """Mean squared reconstruction error of each class (Eq. 4)."""

    @property
    def label(self) -> str:
        """The class that rebuilds the image best."""
        return min(self.errors, key=self.errors.__getitem__)


class Classifier:
    """Enrolled classes over an extractor. Classes may have different numbers of images."""

    def __init__(self, extractor: Extractor) -> None:
        if extractor.head is None:
            raise FrnError(
                f"this model was trained as {extractor.method}, but classes are enrolled by reconstruction. "
                "Use one trained with --method frn."
            )
        self.extractor = extractor
        self.head = extractor.head
        self.classes: dict[str, Enrolled] = {}
        self._bank: Bank | None = None

    def enroll(self, classes: Mapping[str, Sequence[Path]]) -> list[FrnError]:
        """Add classes from image files.

        Returns:
            Why some files could not be read; the rest of their class is used.

        Raises:
            FrnError: if a class has no readable image.
        """
        labels = [name for name, paths in classes.items() for _ in paths]
        outcomes = self.extractor.read(path for paths in classes.values() for path in paths)
        maps: dict[str, list[Maps]] = {name: [] for name in classes}
        broken: dict[str, list[FrnError]] = {name: [] for name in classes}
        for name, (_, outcome) in zip(labels, outcomes, strict=True):
            if isinstance(outcome, FrnError):
                broken[name].append(outcome)
            else:
                maps[name].append(outcome)
        for name, found in maps.items():
            if not found:
                first = f" The first: {broken[name][0]}" if broken[name] else ""
                raise FrnError(f"class {name!r} has no readable image among {len(classes[name])} files.{first}")
            self.classes[name] = enroll(np.stack(found), self.head)
        self._bank = None
        return [error for errors in broken.values() for error in errors]

    def classify(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Prediction | FrnError]]:
        """Classify image files, in order; one that cannot be read yields its error and stops nothing."""
        for path, outcome in self.extractor.read(paths):
            yield path, outcome if isinstance(outcome, FrnError) else self.predict(outcome)

    def predict(self, maps: Maps) -> Prediction:
        """Classify one feature map (r, d)."""
        if self._bank is None:
            self._bank = Bank(list(self.classes.values()))
        errors = self._bank.class_error(maps[None])[0]
        shares = probabilities(errors, self.head.gamma)
        return Prediction(
            dict(zip(self.classes, shares.tolist(), strict=True)), dict(zip(self.classes, errors.tolist(), strict=True))
        )
