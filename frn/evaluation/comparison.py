"""Compare models on given classes: each model enrolls them and classifies every example by leave-one-out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from frn.errors import FrnError
from frn.evaluation.accuracy import Accuracy, summarise
from frn.evaluation.labelled import wilson
from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore
from frn.inference.classifier import Classifier


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Results of one model on the classes."""

    model: str
    right: int
    """Examples that leave-one-out classifies correctly."""
    photos: int
    """Number of examples in classes with at least two; if there are more than 1,000, an even selection is used."""
    auroc: float
    """Probability that an example has a larger `known` than a photo of an unknown class; NaN with a single class."""
    milliseconds: float
    """Time of the extractor for one photo, without decoding."""
    bytes: int
    """Size of the extractor."""
    answers: Mapping[Path, str]
    """Label of each example by leave-one-out."""
    hits: Mapping[Path, bool]
    """True for each example that is classified rightly."""

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95% interval of the accuracy, from 0 to 1."""
        return wilson(self.right, self.photos)


def compare_models(
    classes: Mapping[str, Sequence[Path]], models: Iterable[tuple[str, Extractor]]
) -> Iterator[ModelComparison]:
    """Compare models, given by name and opened one after the other, on the same classes.

    Raises FrnError if a class has no readable photo, or no class has two.
    """
    for model, extractor in models:
        classifier = Classifier(extractor, FeatureStore())
        classifier.enroll(classes)
        assert classifier.left_out is not None  # `enroll` has set it
        labels = classifier.left_out.labels
        if not len(labels):
            raise FrnError("comparing models needs a class with at least two photos, because it uses leave-one-out")
        photos = [support.path for support in classifier.left_out_photos]
        answers, again = classifier.left_out.errors.argmin(1), 0.0
        if classifier.second is not None:
            answers, again = classifier.second.left_out_answers(classifier)
        yield ModelComparison(
            model,
            int((answers == labels).sum()),
            len(labels),
            classifier.calibration.auroc,
            (1 + again) * extractor.milliseconds(),
            len(extractor.data),
            {path: classifier.names[answer] for path, answer in zip(photos, answers, strict=True)},
            dict(zip(photos, (answers == labels).tolist(), strict=True)),
        )


def gain(one: ModelComparison, other: ModelComparison) -> Accuracy:
    """Return by how much `other` is more accurate than `one`, photo by photo, in percentage points."""
    return summarise([float(other.hits[path]) - hit for path, hit in one.hits.items() if path in other.hits])


def disagreements(comparisons: Sequence[ModelComparison]) -> list[Path]:
    """Return the photos for which the models do not all give the same label."""
    return [path for path in comparisons[0].answers if len({each.answers.get(path) for each in comparisons}) > 1]
