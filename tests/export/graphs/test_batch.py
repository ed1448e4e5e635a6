"""Scoring many images at once gives the same results as scoring each one alone."""

from typing import Any

import numpy as np
import onnx
import pytest
from frn_export.graphs.classifier import batch_graph, classifier_graph, scores_graph
from frn_export.graphs.head import head_graph
from frn_export.graphs.mirror import augmented
from frn_export.graphs.prepare import preprocess_graph
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from frn.estimator.loading import load_classifier
from frn.features.onnx_runtime import open_session, run_session
from frn.images.opening import open_image
from frn.inference.classifier import Classifier
from tests.drawings import DRAWINGS

SAMPLES = DRAWINGS
QUERIES = sorted((SAMPLES / "queries").iterdir())[:7]
OUTPUTS = ["label", "probability", "class_error", "explained", "known", "error_map"]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return load_classifier(SAMPLES / "moths", "conv4", "cpu")[0]


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
