"""Defaults of an export, and the arithmetic of its checks."""

from pathlib import Path
from typing import Any

import pytest
from frn_export import export
from frn_export.export import ExportOptions

from frn.errors import FrnError
<<<<<<< HEAD
=======
from frn.features.onnx_runtime import run_session
from frn.images.transforms import EvaluationTransform


@pytest.mark.parametrize("resize", [None, 20])
def test_preprocessing_may_be_off_by_two_grey_levels(monkeypatch: pytest.MonkeyPatch, resize: int | None) -> None:
    transform = EvaluationTransform(size=16, resize=resize)
    graph = preprocess_graph(transform).SerializeToString()
    exact = _compare_preprocess(transform, graph)
    assert exact.require().share < 2.0001 / 255
    assert exact.allowed == pytest.approx(2.001 / 255, rel=1e-6)
    shapes = []

    def white(session: object, names: object, inputs: dict[str, Any]) -> list[Any]:
        shapes.append(inputs["image"].shape)
        return [np.full((1, 3, 16, 16), 1.0, np.float32)]

    monkeypatch.setattr(export, "run_session", white)
    assert 0.9 < _compare_preprocess(transform, graph).share <= 1
    assert len({height > width for height, width, _ in shapes}) == 2  # upright and wide


def test_difference_of_a_batch_is_a_share_of_a_photos_energy(monkeypatch: pytest.MonkeyPatch, moths: Path) -> None:
    from frn.estimator.loading import load_classifier

    classifier, _ = load_classifier(moths / "test", "conv4", "cpu")
    graph = batch_graph(classifier.extractor, classifier.classes, rule=classifier.rule, gamma=1.0)

    def compared() -> Difference:
        run = _class_error(graph.SerializeToString(), "classifier-batch", classifier.extractor.transform)
        return compare_answers(classifier, "classifier-batch.onnx", run)

    exact = compared()
    assert exact.share < 1e-5
    assert (exact.what, exact.allowed) == ("classifier-batch.onnx", 2e-3)
    photos = [entry.supports[0].path for entry in classifier.state.classes]
    least = min(classifier.scorer.energy(outcome.maps[None])[0] for _, outcome in classifier.extractor.read(photos))  # type: ignore[union-attr]

    def shifted(*words: Any) -> list[Any]:
        (errors,) = run_session(*words)
        return [errors + 1e-3]

    monkeypatch.setattr(export, "run_session", shifted)
    assert compared().share == pytest.approx(1e-3 / least, rel=0.02)
>>>>>>> c660f220 (Export without int8)


@pytest.mark.parametrize(
    ("name", "options", "classes"),
    [
        ("features.onnx", ExportOptions(), None),
        ("README.md", ExportOptions(), None),
        ("classifier-batch.onnx", ExportOptions(), {"jay": [Path("x")]}),
        ("model.safetensors", ExportOptions(weights=True), None),
    ],
)
def test_file_that_would_be_overwritten_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, options: ExportOptions, classes: Any
) -> None:
    (tmp_path / name).write_text("mine")
    monkeypatch.setattr(export, "features_graph", pytest.fail)
    with pytest.raises(FrnError, match=f"{name}: already exists"):
        export.export_model(None, tmp_path, options, classes)  # type: ignore[arg-type]
