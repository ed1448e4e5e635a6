"""Checks that an export must pass before it is written."""

import shutil
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from frn_export import export
from frn_export.difference import Difference, compare_answers
from frn_export.export import ExportOptions, class_error_of
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.classifier import classifier_graph
from frn_export.graphs.head import head_graph
from frn_export.int8_accuracy import Cost
from frn_export.parity import (
    FEATURE_TOLERANCE,
    HALF_TOLERANCE,
    HEAD_TOLERANCE,
    compare_features,
    compare_head,
    verified_head,
)
from frn_export.quantise import half
from PIL import Image

from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import HEAD_OPERATORS, ForeignModel
from frn.heads import Head
from frn.inference.classifier import Classifier
from frn.models.model import Model, load_model
from frn.projects.session import State
from frn.ridge.parameters import HeadParameters
from tests.models import small_model


def learned(seed: int = 0) -> Model:
    model = small_model(seed=seed)
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


def compare_classifier(classifier: Classifier, graph: bytes) -> Difference:
    run = class_error_of(graph, "classifier", classifier.extractor.transform)
    return compare_answers(classifier, "classifier.onnx", run)


def test_an_export_equals_its_source() -> None:
    model = learned()
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
    model, other = learned(), learned(1)
    with pytest.raises(FrnError, match=r"features.onnx differs .* Nothing was written"):
        compare_features(model, features_file(other), allowed=HALF_TOLERANCE).require()
    for name in ("alpha", "beta", "gamma"):
        other = learned()
        with torch.no_grad():
            getattr(other.head, name).add_(1e-3)
        with pytest.raises(FrnError, match=r"head.onnx differs .* of the query's energy"):
            compare_head(model, head_file(other)).require()
    one_promille = compare_head(model, head_file(other)).share
    for share, is_allowed in ((4e-6, True), (7e-6, False)):
        other = learned()
        with torch.no_grad():
            other.head.gamma.add_(1e-3 * share / one_promille)  # type: ignore[operator]
        assert (compare_head(model, head_file(other)).share <= HEAD_TOLERANCE) == is_allowed


@pytest.mark.parametrize("allowed", [FEATURE_TOLERANCE, HALF_TOLERANCE])
@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_largest_feature_may_differ_by_the_tolerance(allowed: float, factor: float) -> None:
    model, scaled = learned(), learned()
    scaled.adapter = torch.nn.Linear(model.d, model.d, bias=False)
    scaled.adapter.weight.data = (1 + factor * allowed) * torch.eye(model.d)
    found = compare_features(model, features_file(scaled), allowed=allowed)
    assert found.share == pytest.approx(factor * allowed, rel=0.1)


@pytest.mark.parametrize(("beta", "gamma"), [(0.4, 3.0), (0.4, 1.0), (1.5, 1.0)])
def test_difference_of_logits_is_a_share_of_what_a_class_can_miss(beta: float, gamma: float) -> None:
    model, other = learned(), learned()
    with torch.no_grad():
        for each, added in ((model, 0.0), (other, 1e-3)):
            each.head.beta.fill_(beta)  # type: ignore[operator]
            each.head.gamma.fill_(gamma + added)  # type: ignore[operator]
    assert 0.6 < compare_head(model, head_file(other)).share * max(1, gamma) / 1e-3 < 1


def test_a_nan_difference_is_refused() -> None:
    Difference("x", 1e-6, 1e-6, "y").require()
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
        compare_classifier(classifier, graph).require()


class Scaled(Head):
    """Logits of `size`, whatever the episode, and in double precision of a little more."""

    def __init__(self, size: float, more: float) -> None:
        super().__init__()
        self.size, self.more = size, more

    def forward(self, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        pools, queries = support.mean((1, 2, 3)), query.mean((1, 2))
        return self.size + self.more * (query.dtype == torch.float64) + 0 * queries[:, None] * pools[None]


@pytest.mark.parametrize(
    ("size", "more", "is_allowed"), [(100, 1.5e-3, True), (100, 3e-3, False), (0.5, 1.5e-5, True), (0.5, 3e-5, False)]
)
def test_logits_of_other_heads_may_differ_by_a_share(size: float, more: float, is_allowed: bool) -> None:
    model: Any = SimpleNamespace(grid=(2, 3), d=4, config=SimpleNamespace(method="own"), head=Scaled(size, more))
    with nullcontext() if is_allowed else pytest.raises(FrnError, match=r"head\.onnx differs from the original"):
        verified_head(model)


class Operators(Head):
    """A head of an external package, with operators that none of ours uses."""

    def forward(self, support: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        pools, queries = support.mean((1, 2)), query.mean(1)
        cosines = torch.einsum("qd,wd->qw", queries, pools) / pools.square().sum(-1)
        best = cosines.topk(1, dim=1).values
        near = torch.where((cosines < best) & (cosines > 0), cosines, 2 * best)
        return near + (cosines.argmax(1, keepdim=True) == cosines.argmin(1, keepdim=True)) + pools.logsumexp(1)


def test_operators_of_an_exported_head_are_those_that_frn_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = SimpleNamespace(grid=(2, 3), d=4, config=SimpleNamespace(method="own"), head=Operators())
    graph, _ = verified_head(model)
    assert ForeignModel(graph, "head.onnx", "cpu", 1).run(
        {"support": np.ones((3, 2, 6, 4), np.float32), "query": np.ones((5, 6, 4), np.float32)}
    ).shape == (5, 3)
    monkeypatch.setattr("frn.features.onnx_runtime.HEAD_OPERATORS", HEAD_OPERATORS - {"Einsum"})
    with pytest.raises(
        FrnError, match=r"head of own cannot be exported .* uses the operator ai\.onnx\.Einsum, which is not"
    ):
        verified_head(model)


@pytest.mark.parametrize(
    ("name", "options", "classes", "reason"),
    [
        ("features.onnx", ExportOptions(), None, "features.onnx: already exists"),
        ("README.md", ExportOptions(), None, "README.md: already exists"),
        ("classifier-batch.onnx", ExportOptions(), {"jay": [Path("x")]}, "classifier-batch.onnx: already exists"),
        ("model.safetensors", ExportOptions(weights=True), None, "model.safetensors: already exists"),
        ("model.safetensors", ExportOptions(), None, "started"),
        ("finder.onnx", ExportOptions(), State(search="one"), "finder.onnx: already exists"),
        ("finder.onnx", ExportOptions(), State(), "started"),
        ("mine.txt", ExportOptions(), {"\udcff": [Path("x")]}, "is not valid text"),
    ],
)
def test_file_that_would_be_overwritten_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, options: ExportOptions, classes: Any, reason: str
) -> None:
    def start(model: None) -> None:
        raise FrnError("started")

    (tmp_path / name).write_text("mine")
    monkeypatch.setattr(export, "features_graph", start)
    with pytest.raises(FrnError, match=reason):
        export.export_model(None, tmp_path, options, classes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("levels", "is_allowed"), [(2, True), (3, False)])
def test_preprocessing_may_differ_by_two_grey_levels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, levels: int, is_allowed: bool
) -> None:
    model = small_model()

    def shifted(session: object, outputs: object, inputs: dict[str, Any]) -> list[Any]:
        image = model.config.transform(Image.fromarray(inputs["image"]))
        return [(image.transpose(2, 0, 1)[None] + np.float32(levels)) / 255]

    monkeypatch.setattr(export, "run_session", shifted)
    with nullcontext() if is_allowed else pytest.raises(FrnError, match=r"preprocess\.onnx differs"):
        export.export_model(model, tmp_path / "out", ExportOptions())
    assert (tmp_path / "out").exists() == is_allowed


@pytest.mark.parametrize(("precision", "limit"), [("fp32", 2e-3), ("int8", 2e-2)])
def test_answers_of_classifiers_may_differ_by_less_than_int8_moves_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moths: Path, precision: Any, limit: float
) -> None:
    calibrate = shutil.copytree(moths / "val", tmp_path / "val") if precision == "int8" else None
    for broken in (tmp_path / "class.png", tmp_path / "val" / "moth 20" / "calibration.png"):
        if broken.parent.exists():
            broken.write_text("no photo")
    options = ExportOptions(precision=precision, calibrate=calibrate)
    classes = {home.name: sorted(home.iterdir())[:2] for home in sorted((moths / "test").iterdir())[:2]}
    classes["moth 40"].append(tmp_path / "class.png")
    said: list[str] = []
    monkeypatch.setattr("frn_export.quantise.int8", lambda features, pixels: features)

    def written(share: float, drop: float = 0.9) -> bool:
        cost = Cost(EpisodeShape(way=5, shot=1, queries=5), 50.0, 50.0 - drop, tmp_path)
        found = lambda classifier, what, run, allowed: Difference(what, share, allowed, "unit")  # noqa: E731
        monkeypatch.setattr(export, "measure_cost", lambda *_, **__: cost)
        monkeypatch.setattr(export, "compare_answers", found)
        with suppress(FrnError):
            export.export_model(small_model(), out := tmp_path / f"{share}{drop}", options, classes, warn=said.extend)
        return out.exists()

    assert written(0.9 * limit)
    skipped = ["calibration.png: "] * (precision == "int8") + ["class.png: "]
    assert [word in line for word, line in zip(skipped, said, strict=True)] == [True] * len(skipped)
    assert not written(1.1 * limit)
    assert written(0.0, drop=1.1) == (precision == "fp32")


def test_a_head_that_cannot_be_exported_is_skipped_unless_classes_need_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moths: Path
) -> None:
    def refuse(model: Model) -> None:
        raise FrnError("no graph")

    monkeypatch.setattr("frn_export.parity.verified_head", refuse)
    said: list[str] = []
    exported = export.export_model(small_model("proto"), tmp_path / "a", ExportOptions(), warn=said.extend)
    assert said == ["no graph. frn runs it in torch, from the model file or from model.safetensors (--weights)."]
    assert "head" not in exported.paths
    with pytest.raises(FrnError, match="no graph"):
        export.export_model(small_model("proto"), tmp_path / "b", ExportOptions(), {"a": [Path("x")]})


def test_difference_of_answers_is_a_share_of_the_energy_of_a_photo(classifier: Classifier) -> None:
    def more(photo: Image.Image) -> Any:
        maps = classifier.extractor.feature_maps(classifier.extractor.transform(photo)[None])
        energy = classifier.scorer.energy(maps)[0]
        return np.array([*classifier.predict(maps[0]).errors.values()]) + 0.25 * energy

    assert compare_answers(classifier, "x", more).share == pytest.approx(0.25)
