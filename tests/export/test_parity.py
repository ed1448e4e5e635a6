"""Checks that an export must pass before it is written."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from frn_export import parity
from frn_export.difference import CLASSIFIER_TOLERANCE, Difference, compare_answers
from frn_export.export import _class_error
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import classifier_graph
from frn_export.graphs.head import head_graph
from frn_export.parity import (
    COARSE_TOLERANCE,
    HALF_TOLERANCE,
    compare_features,
    compare_head,
    verified_head,
)
from frn_export.quantise import half

from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import HEAD_OPERATORS, ForeignModel, run_session
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier
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


def compare_classifier(classifier: Classifier, graph: bytes, allowed: float = CLASSIFIER_TOLERANCE) -> Difference:
    run = _class_error(graph, "classifier", classifier.extractor.transform)
    return compare_answers(classifier, "classifier.onnx", run, allowed)


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


def test_classifier_file_gives_the_same_answers_as_its_classes(classifier: Classifier) -> None:
    graph = classifier_graph(classifier.extractor.data, classifier.classes).SerializeToString()
    found = compare_classifier(classifier, graph)
    found.require()
    assert found.share > 0


def test_a_classifier_file_with_different_examples_is_refused(classifier: Classifier, moths: Path) -> None:
    other = Classifier(classifier.extractor)
    other.enroll({home.name: sorted(home.iterdir())[6:7] for home in sorted((moths / "test").iterdir())})
    graph = classifier_graph(classifier.extractor.data, other.classes).SerializeToString()
    with pytest.raises(FrnError, match=r"classifier\.onnx differs"):
        compare_classifier(classifier, graph, allowed=COARSE_TOLERANCE).require()


def test_largest_allowed_difference_passes() -> None:
    assert (HALF_TOLERANCE, COARSE_TOLERANCE, CLASSIFIER_TOLERANCE) == (1e-2, 2e-2, 2e-3)
    assert str(Difference("x", 1e-3, 1e-3, "y").require()) == "x: differs from the original by at most 1.0e-03 of y"
    with pytest.raises(FrnError, match=r"x differs from the original by 1\.1e-03 of y; at most 1e-03 is allowed"):
        Difference("x", 1.1e-3, 1e-3, "y").require()


def test_difference_of_features_is_a_share_of_the_largest() -> None:
    model = small_model()
    graph = features_file(model)
    with torch.no_grad():
        *_, last = (module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d))
        last.weight.mul_(1.25)
        last.bias.mul_(1.25)
    assert compare_features(model, graph).share == pytest.approx(0.25 / 1.25, rel=1e-3)


def shift(monkeypatch: pytest.MonkeyPatch, by: float, output: str) -> None:
    """Add a number to every value of an output of a graph that is compared."""

    def run(session: Any, names: list[str], inputs: Any) -> list[Any]:
        results = run_session(session, names, inputs)
        return [each + by * (name == output) for name, each in zip(names, results, strict=True)]

    monkeypatch.setattr(parity, "run_session", run)


@pytest.mark.parametrize(("beta", "gamma"), [(0.4, 3.0), (0.4, 0.2), (1.5, 3.0)])
def test_difference_of_a_head_is_a_share_of_the_energy(
    monkeypatch: pytest.MonkeyPatch, beta: float, gamma: float
) -> None:
    """Random features have 0.5 of energy for each of 64 channels."""
    model = small_model()
    with torch.no_grad():
        model.head.beta.fill_(beta)  # type: ignore[operator]
        model.head.gamma.fill_(gamma)  # type: ignore[operator]
    unit = 32 * max(1.0, (math.exp(beta) - 1) ** 2)
    for output, share in (("class_error", 1 / unit), ("logits", 1 / max(1.0, gamma) / unit)):
        shift(monkeypatch, 1.0, output)
        found = compare_head(model, head_file(model))
        assert found.share == pytest.approx(share, rel=0.1)
        assert (found.what, found.allowed) == ("head.onnx", 5e-6)


class Scaled(torch.nn.Module):
    """Logits of about `size`, whatever the episode."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        pools, queries = support.mean((1, 2, 3)), query.mean((1, 2))
        return self.size + 0 * queries[:, None] * pools[None]


@pytest.mark.parametrize(("size", "unit"), [(0.5, 1.0), (8.0, 8.0)])
def test_difference_of_another_head_is_a_share_of_the_largest_logit_or_of_one(
    monkeypatch: pytest.MonkeyPatch, size: float, unit: float
) -> None:
    model: Any = SimpleNamespace(grid=(2, 3), d=4, config=SimpleNamespace(method="own"), head=Scaled(size))
    assert verified_head(model)[1].allowed == 2e-5
    shift(monkeypatch, 1e-5, "logits")
    assert verified_head(model)[1].share == pytest.approx(1e-5 / unit, rel=0.05)


class Operators(Scaled):
    """A head of an external package, with operators that none of ours uses."""

    def forward(self, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        pools, queries = support.mean((1, 2)), query.mean(1)
        cosines = torch.einsum("qd,wd->qw", queries, pools) / pools.square().sum(-1)
        best = cosines.topk(1, dim=1).values
        near = torch.where((cosines < best) & (cosines > 0), cosines, 2 * best)
        return near + (cosines.argmax(1, keepdim=True) == cosines.argmin(1, keepdim=True)) + pools.logsumexp(1)


def test_operators_of_an_exported_head_are_those_that_frn_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = SimpleNamespace(grid=(2, 3), d=4, config=SimpleNamespace(method="own"), head=Operators(1.0))
    graph, _ = verified_head(model)
    assert ForeignModel(graph, "head.onnx", "cpu", 1).run(
        {"support": np.ones((3, 2, 6, 4), np.float32), "query": np.ones((5, 6, 4), np.float32)}
    ).shape == (5, 3)
    monkeypatch.setattr("frn.features.onnx_runtime.HEAD_OPERATORS", HEAD_OPERATORS - {"Einsum"})
    with pytest.raises(
        FrnError, match=r"head of own cannot be exported .* uses the operator ai\.onnx\.Einsum, which is not"
    ):
        verified_head(model)


@pytest.mark.parametrize(("energy", "share"), [(4.0, 0.25), (0.0, 1.0)])
def test_differences_are_fractions_of_the_energy(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch, energy: float, share: float
) -> None:
    monkeypatch.setattr(classifier.scorer, "energy", lambda maps: np.array([energy]))
    monkeypatch.setattr(classifier, "predict", lambda maps: SimpleNamespace(errors={"a": 2.0, "b": 3.0}))
    found = compare_answers(classifier, "x", lambda photo: np.array([2.0, 4.0]))
    assert (found.share, found.allowed) == (share, CLASSIFIER_TOLERANCE)
