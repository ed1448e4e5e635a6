"""Checks that an export must pass before it is written."""

from pathlib import Path

import pytest
import torch
from frn_export.difference import CLASSIFIER_TOLERANCE, Difference
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import classifier_graph
from frn_export.graphs.head import head_graph
from frn_export.parity import (
    COARSE_TOLERANCE,
    HALF_TOLERANCE,
    compare_classifier,
    compare_features,
    compare_head,
)
from frn_export.quantise import half

from frn.errors import FrnError
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier
from frn.inference.extractor import Extractor
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model
from frn.ridge.parameters import HeadParameters


def small_model(seed: int = 0) -> Model:
    torch.manual_seed(seed)
    config = ModelConfig(backbone="conv4", method="frn", last_pool=False, transform=EvaluationTransform(size=32))
    model = Model(config).eval()
    with torch.no_grad():
        model.head.beta.fill_(0.4)  # type: ignore[operator]
        model.head.gamma.fill_(3.0)  # type: ignore[operator]
    return model


def features_file(model: Model) -> bytes:
    return features_graph(model).SerializeToString(deterministic=True)


def head_file(model: Model) -> bytes:
    return head_graph(HeadParameters.of(model.head)).SerializeToString(deterministic=True)


@pytest.fixture
def classifier(moths: Path) -> Classifier:
    enrolled = Classifier(Extractor(features_file(load_model("conv4")), "m", threads=1))
    homes = sorted((moths / "test").iterdir())
    enrolled.enroll({home.name: sorted(home.iterdir())[: 2 + i] for i, home in enumerate(homes)})
    return enrolled


@pytest.fixture
def photos(moths: Path) -> list[Path]:
    return [sorted(home.iterdir())[-1] for home in sorted((moths / "test").iterdir())]


def test_an_export_equals_its_source() -> None:
    model = small_model()
    for found in (compare_features(model, features_file(model)), compare_head(model, head_file(model))):
        found.require()
        assert 0 < found.share <= 1e-6
    assert next(model.parameters()).dtype == torch.float32


def test_half_precision_has_its_own_tolerance() -> None:
    model = load_model("conv4")
    smaller = half(features_file(model))
    compare_features(model, smaller, allowed=HALF_TOLERANCE).require()
    with pytest.raises(FrnError, match=r"features.onnx differs .* of the largest feature; at most 5e-06 is allowed"):
        compare_features(model, smaller).require()


def test_files_from_a_different_model_are_refused() -> None:
    model, other = small_model(), small_model(1)
    with pytest.raises(FrnError, match=r"features.onnx differs .* Nothing was written"):
        compare_features(model, features_file(other), allowed=HALF_TOLERANCE).require()
    for name in ("alpha", "beta", "gamma"):
        other = small_model()
        with torch.no_grad():
            getattr(other.head, name).add_(1e-3)
        with pytest.raises(FrnError, match=r"head.onnx differs .* of the query's energy"):
            compare_head(model, head_file(other)).require()


def test_a_nan_difference_is_refused() -> None:
    with pytest.raises(FrnError, match="x differs"):
        Difference("x", float("nan"), 1e-6, "y").require()


def test_classifier_file_gives_the_same_answers_as_its_classes(classifier: Classifier, photos: list[Path]) -> None:
    graph = classifier_graph(classifier.extractor.data, classifier.classes).SerializeToString()
    found = compare_classifier(classifier, graph, photos)
    found.require()
    assert found.share > 0


def test_classifier_file_with_swapped_names_is_refused(classifier: Classifier, photos: list[Path]) -> None:
    names = list(classifier.classes)
    mixed = dict(zip([*names[1:], names[0]], classifier.classes.values(), strict=True))
    graph = classifier_graph(classifier.extractor.data, mixed).SerializeToString()
    with pytest.raises(
        FrnError, match=r"classifier.onnx labels .* 'moth 41', but the project's classes give 'moth 40'"
    ):
        compare_classifier(classifier, graph, photos)


def test_a_classifier_file_with_different_examples_is_refused(
    classifier: Classifier, photos: list[Path], moths: Path
) -> None:
    other = Classifier(classifier.extractor)
    other.enroll({home.name: sorted(home.iterdir())[6:7] for home in sorted((moths / "test").iterdir())})
    graph = classifier_graph(classifier.extractor.data, other.classes).SerializeToString()
    with pytest.raises(FrnError, match=r"classifier.onnx (differs|labels)"):
        compare_classifier(classifier, graph, photos, allowed=COARSE_TOLERANCE).require()


def test_file_just_beyond_the_tolerance_is_refused() -> None:
    """The tolerances for features and head are five parts per million."""
    model = small_model()
    graph = features_file(model)
    with torch.no_grad():
        for norm in (module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)):
            last = norm
        last.weight.mul_(1 + 1e-4)
        last.bias.mul_(1 + 1e-4)
    with pytest.raises(FrnError, match=r"features.onnx differs .* at most 5e-06 is allowed"):
        compare_features(model, graph).require()
    head = head_file(model)
    with torch.no_grad():
        model.head.gamma.fill_(3.0)  # type: ignore[operator]
        model.head.alpha.add_(1e-3)  # type: ignore[operator]
    with pytest.raises(FrnError, match=r"head.onnx differs .* at most 5e-06 is allowed"):
        compare_head(model, head).require()


def test_largest_allowed_difference_passes() -> None:
    assert (HALF_TOLERANCE, COARSE_TOLERANCE, CLASSIFIER_TOLERANCE) == (1e-2, 2e-2, 2e-3)
