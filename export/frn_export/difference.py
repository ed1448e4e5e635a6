"""Tolerances for differences between exported files and their originals, without torch (unlike `parity`)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from frn.errors import FrnError
from frn.images.opening import open_image
from frn.inference.classifier import Classifier

CLASSIFIER_TOLERANCE = 2e-3
"""Tolerance, as a fraction of the query's energy: resizing in the graph may differ from Pillow's by one grey level."""

COMPARED = 5  # number of photos on which a graph with classes is compared, each of a different class


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference found and the largest allowed, both as fractions of `unit`."""

    what: str
    share: float
    allowed: float
    unit: str

    def __str__(self) -> str:
        return f"{self.what}: differs from the original by at most {self.share:.1e} of {self.unit}"

    def require(self) -> "Difference":
        """Raise FrnError with the difference if it is too large."""
        if not self.share <= self.allowed:
            raise FrnError(
                f"{self.what} differs from the original by {self.share:.1e} of {self.unit}; at most "
                f"{self.allowed:.0e} is allowed. Nothing was written."
            )
        return self


def compare_answers(
    classifier: Classifier,
    what: str,
    class_error: Callable[[Image.Image], NDArray[np.floating]],
    allowed: float = CLASSIFIER_TOLERANCE,
) -> Difference:
    """Compare a graph's errors (way) with those of its classifier, on an example of each of the first classes."""
    largest = 0.0
    for entry in classifier.state.classes[:COMPARED]:
        photo = open_image(entry.supports[0].path)
        maps = classifier.extractor.feature_maps(classifier.extractor.transform(photo)[None])
        expected = list(classifier.predict(maps[0]).errors.values())
        energy = float(classifier.scorer.energy(maps)[0]) or 1.0
        largest = max(largest, float(np.abs(class_error(photo) - expected).max()) / energy)
    return Difference(what, largest, allowed, "a photo's energy")
