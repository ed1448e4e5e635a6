"""Classify files without torch, compared with the torch model."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.quantise import half

from frn.errors import FrnError
from frn.heads.frn import FRNHead
from frn.images.opening import open_image
from frn.images.transforms import EvaluationTransform
from frn.inference.classifier import Classifier, Prediction
from frn.inference.extractor import Embedded, Extractor
from frn.inference.feature_cache import Maps, content_key
from frn.inference.session import Support
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model
from frn.models.zoo import shipped_extractors, shipped_models
from frn.ridge.enrolment import ClassScorer, enroll


def model_of(method: str = "frn") -> Model:
    torch.manual_seed(0)
    config = ModelConfig(backbone="conv4", method=method, last_pool=False, transform=EvaluationTransform(size=32))
    return Model(config).eval()


def extractor_of(model: Model) -> Extractor:
    return Extractor(features_graph(model).SerializeToString(), "m.onnx", threads=1)


def members(folder: Path) -> dict[str, list[Path]]:
    return {home.name: sorted(home.iterdir()) for home in sorted(folder.iterdir())}


def test_errors_and_probabilities_equal_the_torch_model(moths: Path) -> None:
    model = model_of()
    classes = {
        name: paths[: 2 + i] for i, (name, paths) in enumerate(members(moths / "test").items())
    }  # classes of different sizes
    queries = [path for paths in members(moths / "test").values() for path in paths[-2:]]
    classifier = Classifier(extractor_of(model))
    assert classifier.enroll(classes) == []

    def maps(paths: list[Path]) -> torch.Tensor:
        pixels = np.stack([model.config.transform(open_image(path)) for path in paths])
        return model.feature_maps(torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255)

    assert isinstance(model.head, FRNHead)
    model.head.set_parameters(classifier.head)
    with torch.no_grad():
        asked = maps(queries)
        logits = torch.cat([model.head(maps(paths)[None], asked) for paths in classes.values()], dim=1)
    answers = [outcome for _, outcome in classifier.classify(queries)]
    for answer, expected in zip(answers, logits, strict=True):
        assert not isinstance(answer, FrnError)
        assert list(answer.errors) == list(classes)
        errors = -expected.numpy() / classifier.head.gamma
        np.testing.assert_allclose(list(answer.errors.values()), errors, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(list(answer.probabilities.values()), expected.softmax(0), atol=1e-4)
        assert answer.label == list(classes)[int(expected.argmax())]


def test_stored_head_is_used_until_the_classes_change(moths: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {name: paths[:3] for name, paths in members(moths / "test").items()}
    extractor = extractor_of(model_of())
    first, again, changed = Classifier(extractor), Classifier(extractor), Classifier(extractor)
    first.enroll(classes)
    again.kept_head = changed.kept_head = json.loads(json.dumps(first.kept_head))
    monkeypatch.setattr("frn.inference.classifier.tune_by_leave_one_out", lambda pools, prior: prior.head(7))
    again.enroll(classes)
    assert again.head == first.head
    changed.enroll({name: paths[:2] for name, paths in classes.items()})
    assert changed.head == extractor.prior.head(7)


def test_broken_files_are_returned_and_the_rest_of_the_class_is_enrolled(
    moths: Path, tmp_path: Path, truncated_jpeg: Path
) -> None:
    good = members(moths / "test")["moth 40"][:3]
    text = tmp_path / "text.png"
    text.write_text("no picture")
    classifier = Classifier(extractor_of(model_of()))
    broken = classifier.enroll({"moth": [text, *good, truncated_jpeg]})
    assert [str(error).split(":")[0] for error in broken] == [str(text), str(truncated_jpeg)]
    (_, answer), (_, failure) = classifier.classify([good[0], text])
    assert not isinstance(answer, FrnError)
    assert answer.probabilities == {"moth": 1.0}
    assert isinstance(failure, FrnError)
    with pytest.raises(FrnError, match=r"class 'x' has no usable image among 1 files. The first: .*text\.png"):
        classifier.enroll({"x": [text]})


def test_a_protonet_cannot_enroll() -> None:
    with pytest.raises(FrnError, match="was trained as proto, but classes are enrolled by reconstruction"):
        Classifier(extractor_of(model_of("proto")))


def test_every_shipped_model_has_its_extractor_and_they_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are byte-identical, apart from the version of frn that wrote them."""
    assert set(shipped_models()) == set(shipped_extractors())
    for name, path in shipped_extractors().items():
        written_by = {entry.key: entry.value for entry in onnx.load(path).metadata_props}["frn.library"]
        monkeypatch.setattr("frn_export.graphs.builder.__version__", written_by)
        graph = features_graph(load_model(name)).SerializeToString(deterministic=True)
        with safetensors.safe_open(shipped_models()[name], framework="pt") as file:
            stored = {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118
        assert path.read_bytes() == (half(graph) if "F16" in stored else graph), name


def test_callback_runs_before_each_file_and_can_stop_the_reading(moths: Path) -> None:
    extractor = Extractor.open(shipped_extractors()["conv4"], trusted=True, device="cpu")
    paths = sorted((moths / "test" / "moth 40").iterdir())[:3]
    told: list[Path] = []
    assert len(list(extractor.read(paths, opening=told.append))) == 3
    assert told == paths

    def object_to(path: Path) -> None:
        raise InterruptedError(path.name)

    with pytest.raises(InterruptedError, match=paths[0].name):
        list(extractor.read(paths, opening=object_to))


@pytest.mark.parametrize("announced", [False, True])
def test_next_photos_are_embedded_while_the_current_ones_are_used(
    moths: Path, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    """If reading may stop between two files, nothing is read ahead."""
    extractor = extractor_of(model_of())
    seen, twice, run = [], threading.Event(), extractor.session.run

    def watched(inputs: dict[str, Maps]) -> Maps:
        seen.append(len(inputs["images"]))
        if len(seen) == 2:
            twice.set()
        return run(inputs)

    monkeypatch.setattr(extractor.session, "run", watched)
    monkeypatch.setattr("frn.inference.extractor.BATCH", 2)
    paths = members(moths / "test")["moth 40"][:7]
    reading = extractor.read(paths, opening=(lambda path: None) if announced else None)
    first = next(reading)[0]
    assert twice.wait(0.5 if announced else 30) != announced
    assert [first, *(path for path, _ in reading)] == paths
    assert seen == [2, 2, 2, 1]


def test_photo_at_the_threshold_is_known() -> None:
    def explained(share: float) -> Prediction:
        return Prediction({"a": 1.0}, {"a": 0.5}, {"a": share}, 0.25, 0.0)

    assert [explained(share).unknown for share in (0.25, np.nextafter(0.25, 0), 0.26)] == [False, True, False]


@pytest.mark.parametrize("count", [2, 5])
def test_example_is_classified_by_leave_one_out_in_any_batch(moths: Path, count: int) -> None:
    model = model_of()
    classes = {name: paths[:count] for name, paths in members(moths / "test").items()}
    name, (asked, *rest) = next(iter(classes.items()))
    whole = Classifier(extractor_of(model))
    whole.enroll(classes)
    ((_, answer),) = whole.classify([asked])
    assert not isinstance(answer, FrnError)
    assert answer.example_of == name
    embedded, *others_of_it = [
        found for _, found in whole.extractor.read([asked, *rest]) if isinstance(found, Embedded)
    ]
    enrolled = ClassScorer([enroll(np.stack([found.maps for found in others_of_it]), whole.head)])
    assert answer.errors[name] == pytest.approx(float(enrolled.class_error(embedded.maps[None])[0, 0]), rel=1e-4)
    error_map = whole.error_maps(embedded.maps, embedded.key)[list(classes).index(name)]
    assert error_map.mean() == pytest.approx(answer.errors[name], rel=1e-4)
    others = {other: error for other, error in answer.errors.items() if other != name}
    again = whole.predict(embedded.maps)
    assert again.example_of is None
    assert again.errors[name] < answer.errors[name]
    assert {other: again.errors[other] for other in others} == pytest.approx(others)


def test_the_only_example_of_a_class_is_not_explained_by_itself(moths: Path) -> None:
    classes = {name: paths[:1] for name, paths in members(moths / "test").items()}
    classifier = Classifier(extractor_of(model_of()))
    classifier.enroll(classes)
    name, (asked,) = next(iter(classes.items()))
    ((_, answer),) = classifier.classify([asked])
    assert not isinstance(answer, FrnError)
    assert answer.explained[name] == pytest.approx(0, abs=1e-6)


def test_photos_marked_as_no_class_are_used_in_the_calibration(moths: Path) -> None:
    (_, first), (_, second), (_, others), *_ = members(moths / "test").items()
    classifier = Classifier(extractor_of(model_of()))
    classifier.enroll({"a": first[:4], "b": second[:4]})
    state, plain = classifier.state, classifier.calibration
    known = [Support.of(path, content_key(path.read_bytes())) for path in others[:5]]
    classifier.enroll_state(replace(state, others=tuple(known)))
    assert classifier.state.others == tuple(known)
    assert len(classifier.calibration.others) == 5
    assert classifier.calibration.rule.least >= plain.rule.least
    familiar = [classifier.predict(embedded.maps).familiarity for _, embedded in read(classifier, others[:5])]
    np.testing.assert_allclose(classifier.calibration.others, familiar, rtol=1e-5)
    classifier.enroll({"a": first[:4], "b": second[:4]})
    assert not len(classifier.calibration.others)


def read(classifier: Classifier, paths: list[Path]) -> list[tuple[Path, Embedded]]:
    return [(path, one) for path, one in classifier.extractor.read(paths) if isinstance(one, Embedded)]
