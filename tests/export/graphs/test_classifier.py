"""Classifier files for one image and for batches."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.builder import FLOAT, UINT8, GraphBuilder
from frn_export.graphs.classifier import batch_graph, classifier_graph, scores_graph
from frn_export.graphs.head import head_graph
from frn_export.graphs.mirror import augmented
from frn_export.graphs.prepare import prepare, preprocess_graph
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from PIL import Image
from torchvision.transforms import functional

from frn.errors import FrnError
from frn.estimator.loading import load_classifier
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import open_session, run_session
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.inference.unknown.rule import KnownRule
from frn.ridge.enrolment import Allowance, ClassScorer, energy, enroll
from frn.ridge.parameters import HeadParameters
from tests.drawings import DRAWINGS, MOTHS
from tests.models import small_model


def session_of(data: bytes) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def preparer(transform: EvaluationTransform) -> onnxruntime.InferenceSession:
    """Export only the preprocessing of the classifier."""
    graph = GraphBuilder()
    prepare(graph, transform)
    side = transform.size
    model = graph.model(
        {"image": (UINT8, ("h", "w", 3))}, {"images": (FLOAT, (1, 3, side, side))}, {}, "preprocess", kind="frn-prepare"
    )
    return session_of(model.SerializeToString())


def photo(width: int, height: int, seed: int = 0) -> Image.Image:
    """Draw smooth shapes with some noise, like a photo."""
    generator = np.random.default_rng(seed)
    coarse = Image.fromarray(generator.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((width, height), 3)
    noise = generator.normal(0, 8, (height, width, 3))
    return Image.fromarray((np.asarray(coarse) + noise).clip(0, 255).astype(np.uint8))


TRANSFORMS = {
    "shorter": EvaluationTransform(size=84, resize=92),
    "square": EvaluationTransform(size=84, resize=92, square=True),
    "as is": EvaluationTransform(size=32),
    "to the edge": EvaluationTransform(size=84, resize=84),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_preprocessing_in_the_graph_is_within_one_grey_level_of_pillow(name: str) -> None:
    transform, sizes = (TRANSFORMS[name], [(640, 480), (97, 1001), (1000, 997), (33, 47), (1300, 900)])
    run = preparer(transform)
    for width, height in sizes:
        image = photo(width, height)
        (ours,) = run.run(None, {"image": np.asarray(image)})
        difference = np.abs(ours[0].transpose(1, 2, 0) * 255 - transform(image).astype(float))
        assert difference.max() <= 1.01, (width, height)
        assert difference.mean() <= 0.02, (width, height)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_small_images_and_strips_are_within_two_grey_levels_of_pillow(name: str) -> None:
    transform = TRANSFORMS[name]
    run, generator = preparer(transform), np.random.default_rng(1)
    length = transform.resize or 35
    strips = [(20, 300), (1000, 100), (2500, 7)]
    for width, height in [(1, 1), (2, 9), (length, length), *strips, *generator.integers(3, length, (40, 2)).tolist()]:
        image = photo(width, height, seed=width)
        (ours,) = run.run(None, {"image": np.asarray(image)})
        difference = np.abs((ours[0].transpose(1, 2, 0) * 255).round() - transform(image))
        assert difference.max() <= 2, (width, height)
        assert difference.mean() <= 0.15, (width, height)


def test_an_image_of_the_size_of_the_crop_is_unchanged() -> None:
    image = photo(32, 32)
    (ours,) = preparer(EvaluationTransform(size=32)).run(None, {"image": np.asarray(image)})
    np.testing.assert_array_equal((ours[0].transpose(1, 2, 0) * 255).round(), np.asarray(image))


def test_geometry_is_the_same_for_any_size() -> None:
    """Gradient values show where a crop was taken."""
    run, transform = preparer(TRANSFORMS["shorter"]), TRANSFORMS["shorter"]
    generator = np.random.default_rng(0)
    sizes = [tuple(int(n) for n in generator.integers(20, 700, 2)) for _ in range(60)]
    for width, height in [*sizes, (1, 1), (1, 500), (3, 2000), (5000, 2)]:
        across = np.broadcast_to(np.linspace(0, 255, width), (height, width))
        down = np.broadcast_to(np.linspace(0, 255, height)[:, None], (height, width))
        pixels = np.stack([across, down, across], axis=-1).astype(np.uint8)
        (ours,) = run.run(None, {"image": pixels})
        image = Image.fromarray(pixels)
        expected = transform(image).astype(float)
        if max(width, height) <= 20 * min(width, height):
            theirs = np.asarray(functional.center_crop(functional.resize(image, [92]), [84]), dtype=float)
            assert np.abs(theirs - expected).max() <= 1, (width, height)
        assert np.abs(ours[0].transpose(1, 2, 0) * 255 - expected).max() <= 1.01, (width, height)


WEIGHTS = (1.0, 0.5, 0.25, 0.7, 0.3, 0.2)


@pytest.fixture(scope="module")
def features() -> bytes:
    model = small_model()
    with torch.no_grad():
        model.head.beta.fill_(0.9)  # type: ignore[operator]
    return features_graph(model).SerializeToString()


def enrolled(features: bytes, moths: Path) -> Classifier:
    classifier = Classifier(Extractor(features, "m", threads=1))
    homes = sorted((moths / "test").iterdir())
    classifier.enroll({f"{home.name} ßé🐞": sorted(home.iterdir())[: 1 + i] for i, home in enumerate(homes)})
    return classifier


def test_classifier_file_gives_the_same_answers_as_the_classifier(features: bytes, moths: Path) -> None:
    classifier = enrolled(features, moths)
    run = session_of(
        classifier_graph(
            features, classifier.classes, rule=classifier.rule, gamma=classifier.head.gamma
        ).SerializeToString()
    )
    paths = [path for home in sorted((moths / "test").iterdir()) for path in sorted(home.iterdir())[-3:]]
    for path, prediction in classifier.classify(paths):
        assert isinstance(prediction, Prediction)
        pixels = np.asarray(Image.open(path).convert("RGB"))
        label, probability, error, explained, known, error_map = run.run(None, {"image": pixels})
        assert str(label) == prediction.label
        np.testing.assert_allclose(probability, list(prediction.probabilities.values()), atol=5e-3)
        np.testing.assert_allclose(error, list(prediction.errors.values()), rtol=2e-3)
        np.testing.assert_allclose(explained, list(prediction.explained.values()), atol=2e-3)
        assert known == pytest.approx(prediction.known, abs=5e-3)
        maps = classifier.extractor.feature_maps(classifier.extractor.transform(Image.open(path))[None])
        expected = ClassScorer(list(classifier.classes.values())).location_error(maps)[0].T.reshape(5, 4, 4)
        np.testing.assert_allclose(error_map, expected, rtol=2e-3, atol=1e-3)
    metadata = run.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["frn.classes"]) == list(classifier.classes)
    assert float(metadata["frn.threshold"]) == classifier.threshold > 0


@pytest.mark.parametrize(
    ("way", "weights", "unequal"),
    [(2, (), False), *((way, WEIGHTS, way > 1) for way in (1, 2, 9)), (9, WEIGHTS, False)],
)
def test_classifier_file_knows_photos_as_the_rule_does(
    features: bytes, way: int, weights: tuple[float, ...], unequal: bool
) -> None:
    offsets = tuple(range(way)) if unequal else ()
    rule = KnownRule(weights, -1.0, 1.0, 0.4, 0.1, offsets)
    draws, extractor = np.random.default_rng(0), Extractor(features, "m", threads=1)
    classes = {f"{number}": enroll(draws.random((2, *extractor.shape)), HeadParameters(1.0)) for number in range(way)}
    if unequal:
        classes = {name: replace(one, allowance=Allowance(int(name) / 9, 0.5)) for name, one in classes.items()}
    pixels = draws.integers(0, 255, (40, 50, 3), dtype=np.uint8)
    run = session_of(classifier_graph(features, classes, rule=rule, gamma=1.0).SerializeToString())
    maps = extractor.feature_maps(extractor.transform(Image.fromarray(pixels))[None])
    scorer = ClassScorer(list(classes.values()))
    measures = scorer.class_error(maps).astype(np.float64), energy(maps), scorer.centres.distance(maps)
    (known,) = run.run(["known"], {"image": pixels})
    np.testing.assert_allclose(known, rule.known(measures)[0], atol=2e-3)
    assert json.loads(run.get_modelmeta().custom_metadata_map["frn.threshold"]) == 0.4


def test_file_with_many_classes_is_little_larger_than_their_rows(features: bytes) -> None:
    draws = np.random.default_rng(0)
    extractor = Extractor(features, "m", threads=1)
    assert extractor.head
    classes = {
        f"{number}": enroll(draws.standard_normal((1 + number % 2, *extractor.shape)), extractor.head)
        for number in range(500)
    }
    data = classifier_graph(features, classes).SerializeToString()
    rows = sum(one.rows.nbytes for one in classes.values())
    assert len(data) < len(features) + 1.3 * rows + 300_000
    image = draws.integers(0, 256, (32, 32, 3), np.uint8)
    label, *_, error_map = session_of(data).run(None, {"image": image})
    maps = extractor.feature_maps(extractor.transform(Image.fromarray(image))[None])
    expected = ClassScorer(list(classes.values())).location_error(maps)[0].T
    np.testing.assert_allclose(error_map.reshape(expected.shape), expected, rtol=2e-3, atol=1e-3)
    assert str(label) == f"{expected.mean(1).argmin()}"


def test_two_exports_give_the_same_bytes(features: bytes, moths: Path) -> None:
    classes = enrolled(features, moths).classes
    first, again = (classifier_graph(features, classes).SerializeToString(deterministic=True) for _ in range(2))
    assert first == again
    assert str(Path.home()).encode() not in first


def test_a_classifier_needs_a_class(features: bytes) -> None:
    with pytest.raises(FrnError, match="needs at least one class"):
        classifier_graph(features, {})


def test_class_name_that_is_not_text_is_refused(features: bytes) -> None:
    with pytest.raises(FrnError, match="is not valid text"):
        classifier_graph(features, {"\udcff": enroll(np.ones((1, 16, 64)), HeadParameters())})


QUERIES = sorted((DRAWINGS / "queries").iterdir())[:7]
OUTPUTS = ["label", "probability", "class_error", "explained", "known", "error_map"]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(MOTHS, "conv4", "cpu")[0]


def test_batch_gives_the_same_results_as_single_images(classifier: Classifier) -> None:
    extractor = classifier.extractor
    crops = np.stack([extractor.transform(open_image(path)) for path in QUERIES])
    graph = batch_graph(extractor, classifier.classes, rule=classifier.rule, gamma=classifier.head.gamma)
    session = open_session(graph.SerializeToString(), "batch", device="cpu", threads=1)
    images = crops.transpose(0, 3, 1, 2).astype(np.float32) / 255
    label, probability, error, explained, known, maps = run_session(session, OUTPUTS, {"images": images})
    for i, feature_map in enumerate(extractor.feature_maps(crops)):
        alone = classifier.predict(feature_map)
        assert label[i] == alone.label
        np.testing.assert_allclose(probability[i], list(alone.probabilities.values()), atol=1e-4)
        np.testing.assert_allclose(error[i], list(alone.errors.values()), rtol=1e-4)
        np.testing.assert_allclose(explained[i], list(alone.explained.values()), atol=1e-4)
        assert known[i] == pytest.approx(alone.known, abs=1e-4)
        np.testing.assert_allclose(maps[i], classifier.error_maps(feature_map), rtol=1e-3, atol=1e-4)


def graphs(classifier: Classifier) -> dict[str, onnx.ModelProto]:
    extractor, classes, gamma = classifier.extractor, classifier.classes, classifier.head.gamma
    return {
        "features": onnx.load_model_from_string(extractor.data),
        "mirrored": onnx.load_model_from_string(augmented(extractor.data, "hflip")),
        "scores": scores_graph(extractor, classes, gamma),
        "batch": batch_graph(extractor, classes, rule=classifier.rule, gamma=gamma),
        "head": head_graph(classifier.head),
    }


@pytest.mark.parametrize("name", ["features", "mirrored", "scores", "batch", "head"])
def test_empty_batch_gives_an_empty_answer(classifier: Classifier, name: str) -> None:
    side, (r, d) = classifier.extractor.transform.size, classifier.extractor.shape
    images, query = np.zeros((0, 3, side, side), np.float32), np.zeros((0, r, d), np.float32)
    given: dict[str, dict[str, NDArray[Any]]] = {
        "scores": {"feature_map": query},
        "head": {"support": np.ones((3, 2, r, d), np.float32), "shots": np.array([2, 2, 1]), "query": query},
    }
    session = open_session(graphs(classifier)[name].SerializeToString(), name, device="cpu", threads=1)
    outputs = [output.name for output in session.get_outputs()]
    found = run_session(session, outputs, given.get(name, {"images": images}))
    assert [len(each) for each in found] == [0] * len(outputs)


def test_reference_evaluator_preprocesses_and_classifies(classifier: Classifier) -> None:
    """The graph relies only on the ONNX standard, not on special behaviour of onnxruntime."""
    image = {"image": np.asarray(open_image(QUERIES[0]))}
    data = classifier.extractor.data
    whole = classifier_graph(data, classifier.classes, rule=classifier.rule, gamma=classifier.head.gamma)
    for graph in (preprocess_graph(classifier.extractor.transform), whole):
        names = [output.name for output in graph.graph.output]
        session = open_session(graph.SerializeToString(), "x", device="cpu", threads=1)
        for name, ours, theirs in zip(
            names, run_session(session, names, image), ReferenceEvaluator(graph).run(None, image), strict=True
        ):
            if name == "label":
                assert ours == theirs
            else:
                np.testing.assert_allclose(theirs, ours, rtol=3e-2, atol=1.001 / 255)  # they round halves differently
