"""Classify files without torch, compared with the torch model."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.quantise import half
from PIL import Image, ImageOps

from frn.errors import FrnError
from frn.features.extractor import Embedded, Extractor
from frn.features.feature_cache import FeatureStore, Maps, content_key
from frn.heads.frn import FRNHead
from frn.images.opening import open_image
from frn.inference.classifier import Classifier, Prediction
from frn.models.model import Model, load_model
from frn.models.zoo import shipped_extractors, shipped_models
from frn.projects.session import Support
from frn.ridge.enrolment import Allowance, ClassScorer, energy, enroll
from tests.models import small_model


def extractor_of(model: Model) -> Extractor:
    return Extractor(features_graph(model).SerializeToString(), "m.onnx", threads=1)


def constants(model: onnx.ModelProto) -> list[np.ndarray]:
    return [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]


def members(folder: Path) -> dict[str, list[Path]]:
    return {home.name: sorted(home.iterdir()) for home in sorted(folder.iterdir())}


def test_errors_and_probabilities_equal_the_torch_model(moths: Path) -> None:
    model = small_model()
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
    share, usual = np.array([one.allowance for one in classifier.classes.values()], np.float32).T
    gamma, energies = classifier.head.gamma, torch.from_numpy(energy(asked.numpy()).astype(np.float32))
    logits -= gamma * torch.from_numpy(share) * (-logits / gamma - energies[:, None] * usual[0]).clip(0)
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
    extractor = extractor_of(small_model())
    first, again, changed = Classifier(extractor), Classifier(extractor), Classifier(extractor)
    first.enroll(classes)
    monkeypatch.setattr(
        "frn.inference.enrollment.tune_classes", lambda pools, prior: (prior.head(7), [Allowance()] * 5)
    )
    again.enroll_state(first.state)
    assert again.head == first.head
    fewer = tuple(replace(entry, supports=entry.supports[:2]) for entry in first.state.classes)
    changed.enroll_state(replace(first.state, classes=fewer))
    assert changed.head == extractor.prior.head(7)


def test_broken_files_are_returned_and_the_rest_of_the_class_is_enrolled(
    moths: Path, tmp_path: Path, truncated_jpeg: Path
) -> None:
    good = members(moths / "test")["moth 40"][:3]
    text = tmp_path / "text.png"
    text.write_text("no picture")
    classifier = Classifier(extractor_of(small_model()))
    broken = classifier.enroll({"moth": [text, *good, truncated_jpeg]})
    assert [str(error).split(":")[0] for error in broken] == [str(text), str(truncated_jpeg)]
    (_, answer), (_, failure) = classifier.classify([good[0], text])
    assert not isinstance(answer, FrnError)
    assert answer.probabilities == {"moth": 1.0}
    assert isinstance(failure, FrnError)
    with pytest.raises(FrnError, match=r"class 'x' has no usable image among 1 files. The first: .*text\.png"):
        classifier.enroll({"x": [text]})


def test_every_shipped_model_has_its_extractor_and_they_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same graph; torch's tracer folds LiteNet in float32, so a weight's last bits vary by processor."""
    assert set(shipped_models()) == set(shipped_extractors())
    for name, path in shipped_extractors().items():
        shipped = onnx.load(path)
        written_by = {entry.key: entry.value for entry in shipped.metadata_props}["frn.library"]
        monkeypatch.setattr("frn_export.graphs.builder.__version__", written_by)
        graph = features_graph(load_model(name)).SerializeToString(deterministic=True)
        with safetensors.safe_open(shipped_models()[name], framework="pt") as file:
            stored = {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118
        written = onnx.load_from_string(half(graph) if "F16" in stored else graph)
        for found, expected in zip(constants(shipped), constants(written), strict=True):
            assert found.dtype == expected.dtype
            tolerance = {"float16": 1e-3, "float32": 1e-5}.get(found.dtype.name, 0)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 10, err_msg=name)
        for model in (shipped, written):
            for tensor in model.graph.initializer:
                tensor.ClearField("raw_data")
        assert shipped == written, name


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
    extractor = extractor_of(small_model())
    seen, twice, run = [], threading.Event(), extractor.session.run

    def watched(inputs: dict[str, Maps]) -> Maps:
        seen.append(len(inputs["images"]))
        if len(seen) == 2:
            twice.set()
        return run(inputs)

    monkeypatch.setattr(extractor.session, "run", watched)
    monkeypatch.setattr("frn.features.extractor.BATCH", 2)
    paths = members(moths / "test")["moth 40"][:7]
    reading = extractor.read(paths, opening=(lambda path: None) if announced else None)
    first = next(reading)[0]
    assert twice.wait(0.5 if announced else 30) != announced
    assert [first, *(path for path, _ in reading)] == paths
    assert seen == [2, 2, 2, 1]


@pytest.mark.parametrize("count", [2, 5])
def test_example_is_classified_by_leave_one_out_in_any_batch(moths: Path, count: int) -> None:
    model = small_model()
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
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll(classes)
    name, (asked,) = next(iter(classes.items()))
    ((_, answer),) = classifier.classify([asked])
    assert not isinstance(answer, FrnError)
    assert answer.explained[name] == pytest.approx(0, abs=1e-6)


def test_calibration_is_repeated_only_after_a_change(moths: Path) -> None:
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll({name: paths[:3] for name, paths in members(moths / "test").items()})
    before = classifier.calibration
    assert classifier.calibration is before
    classifier.false_rejections = 0.5
    assert classifier.calibration.rule.threshold > before.rule.threshold
    classifier.enroll({name: paths[:2] for name, paths in members(moths / "test").items()})
    assert len(classifier.calibration.known) < len(before.known)


def test_photos_marked_as_no_class_are_used_in_the_calibration(moths: Path) -> None:
    (_, first), (_, second), (_, others), *_ = members(moths / "test").items()
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll({"a": first[:4], "b": second[:4]})
    state, plain = classifier.state, classifier.calibration
    known = [Support.of(path, content_key(path.read_bytes())) for path in others[:5]]
    classifier.enroll_state(replace(state, others=tuple(known)))
    assert classifier.state.others == tuple(known)
    assert len(classifier.calibration.others) == 5
    assert classifier.calibration.rule.threshold >= plain.rule.threshold
    familiar = [classifier.predict(embedded.maps).known for _, embedded in read(classifier, others[:5])]
    np.testing.assert_allclose(classifier.calibration.others, familiar, rtol=1e-5)
    classifier.enroll({"a": first[:4], "b": second[:4]}, [first[0], others[0]])  # an example does not count
    assert [photo.path for photo in classifier.state.others] == others[:1]
    classifier.enroll({"a": first[:4], "b": second[:4]})
    assert not len(classifier.calibration.others)


def read(classifier: Classifier, paths: list[Path]) -> list[tuple[Path, Embedded]]:
    return [(path, one) for path, one in classifier.extractor.read(paths) if isinstance(one, Embedded)]


def answered(found: list[tuple[Path, Prediction | FrnError]]) -> list[Prediction]:
    assert all(isinstance(answer, Prediction) for _, answer in found)
    return [answer for _, answer in found if isinstance(answer, Prediction)]


def test_photos_refine_the_classes_only_if_requested(moths: Path) -> None:
    homes = members(moths / "test")
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll({name: paths[:2] for name, paths in homes.items()})
    example, *queries = [next(iter(homes.values()))[0], *(path for paths in homes.values() for path in paths[-2:])]
    plain = answered(list(classifier.classify([example, *queries])))
    refined = answered(list(classifier.classify([example, *queries], transductive=True)))
    embedded = [found for _, found in classifier.extractor.read([example, *queries]) if isinstance(found, Embedded)]
    maps, keys = [each.maps for each in embedded], [each.key for each in embedded]
    assert list(classifier.answers(embedded)) == plain
    for ours, theirs in zip(classifier.predict_all(maps, keys), plain, strict=True):
        assert ours.errors == pytest.approx(theirs.errors)
    assert {each.transductive for each in plain} == {Prediction({}, {}, {}, 0, False).transductive} == {False}
    assert {each.transductive for each in refined} == {True}
    assert refined[0].errors == pytest.approx(plain[0].errors)  # the example keeps its errors
    assert all(ours.errors != theirs.errors for ours, theirs in zip(refined[1:], plain[1:], strict=True))
    assert [each.explained for each in refined] == [each.explained for each in plain]
    repeated = answered(list(classifier.classify([*queries, *queries[:1] * 5], transductive=True)))
    assert repeated[: len(queries)] == refined[1:]
    assert repeated[len(queries) :] == refined[1:2] * 5
    (alone,) = answered(list(classifier.classify([example], transductive=True)))
    assert alone.probabilities == pytest.approx(plain[0].probabilities)
    assert classifier.predict_all([], []) == []


def test_only_classes_of_two_or_more_photos_are_left_out(moths: Path) -> None:
    homes = list(members(moths / "test").items())[:3]
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll({name: paths[:count] for (name, paths), count in zip(homes, (1, 2, 2), strict=True)})
    names = [name for name, _ in homes]
    assert {name: len(shares) for name, shares in classifier.leave_one_out.items()} == {names[1]: 2, names[2]: 2}
    assert [photo.path for photo in classifier.left_out_photos] == [*homes[1][1][:2], *homes[2][1][:2]]
    assert classifier.left_out is not None
    errors, labels, energies, distances, _ = classifier.left_out
    assert (errors.shape, distances.shape, energies.shape) == ((4, 3), (4, 3), (4,))
    assert labels.tolist() == [1, 1, 2, 2]
    shares = 1 - errors[np.arange(4), labels] / energies
    np.testing.assert_allclose(np.concatenate(list(classifier.leave_one_out.values())), shares.clip(0), rtol=1e-6)


@pytest.mark.parametrize("counts", [(1, 2, 3, 6), (3, 3, 3), (1, 1, 6)])
def test_no_answer_depends_on_the_order_of_photos_and_classes(moths: Path, counts: tuple[int, ...]) -> None:
    homes = list(zip(members(moths / "test").items(), counts, strict=False))
    queries, answers = [path for paths in members(moths / "test").values() for path in paths], []
    for step in (1, -1):
        classifier = Classifier(extractor_of(small_model()))
        classifier.enroll(dict([(name, paths[:count][::step]) for (name, paths), count in homes][::step]))
        photos = [outcome for _, outcome in classifier.extractor.read(queries)]
        predictions = [classifier.predict(photo.maps) for photo in photos if isinstance(photo, Embedded)]
        answers.append(
            [classifier.threshold, classifier.calibration.caught, classifier.head.alpha, classifier.head.gamma]
        )
        answers[-1] += [x for each in predictions for x in (each.known, *sorted(each.probabilities.values()))]
    assert answers[1] == pytest.approx(answers[0], rel=1e-5)


def test_repeated_and_broken_photos_of_an_empty_class_are_named(moths: Path, tmp_path: Path) -> None:
    first, second, *_ = members(moths / "test").values()
    broken, copied = tmp_path / "broken.jpg", tmp_path / "copy.jpg"
    broken.write_text("no picture")
    copied.write_bytes(first[0].read_bytes())
    classifier = Classifier(extractor_of(small_model()))
    notes = classifier.enroll({"a": [*first[:2], copied], "b": [broken, *second[:2]]})
    assert [str(note).partition(" in a known")[0] for note in notes] == [
        f"{broken}: is not an image",
        f"{copied}: is the same photo as {first[0]} of class 'a'; it was not added",
    ]
    with pytest.raises(FrnError) as caught:
        classifier.enroll({"a": [*first[:2], first[0]], "b": [copied]})
    assert str(caught.value) == (
        f"class 'b' has no usable image among 1 files. The first: {first[0]} of class 'a' and {copied} of class 'b' "
        "are the same photo; neither is used. Remove one."
    )
    Image.open(first[0]).save(tmp_path / "saved.jpg")
    with pytest.raises(
        FrnError, match=r"^class 'b' has only photos that are also in another class\. The first: .*saved"
    ):
        classifier.enroll({"a": first[:2], "b": [tmp_path / "saved.jpg"]})
    with pytest.raises(FrnError, match=r"^class 'a' has no usable image among 0 files\.$"):
        classifier.enroll({"a": [], "b": second[:2]})


ALTERED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "again": lambda image: image,
    "darker": lambda image: image.point(lambda value: value * 0.7),
    "grey": lambda image: image.convert("L"),
    "mirrored": ImageOps.mirror,
}


@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_near_copies_in_a_class_count_once(
    moths: Path, tmp_path: Path, change: Callable[[Image.Image], Image.Image]
) -> None:
    first, second, *_ = members(moths / "test").values()
    copied, extractor, store = tmp_path / "copy.jpg", extractor_of(small_model()), FeatureStore(tmp_path / "features")
    change(Image.open(first[0])).save(copied, quality=95)
    plain = Classifier(extractor)
    plain.enroll({"a": first[:3], "b": second[:3]})
    for _ in range(2):  # the second time from the store
        classifier = Classifier(extractor, store)
        (note,) = classifier.enroll({"a": [*first[:3], copied], "b": second[:3]})
        what = "1 of 4 photos is a near copy of another and does not count"
        assert str(note) == f"class 'a': {what}. The first: {copied} of {first[0]}"
        assert (classifier.head, classifier.threshold) == (plain.head, plain.threshold)
        assert [entry.supports for entry in classifier.state.classes] == [e.supports for e in plain.state.classes]
        assert classifier.copies == {content_key(copied.read_bytes()): plain.state.classes[0].supports[0].key}


@pytest.mark.parametrize("change", [None, *ALTERED.values()], ids=["same", *ALTERED])
def test_a_photo_in_two_classes_is_named_and_used_in_neither(
    moths: Path, tmp_path: Path, change: Callable[[Image.Image], Image.Image] | None
) -> None:
    first, second, *_ = members(moths / "test").values()
    twice, extractor, store = tmp_path / "twice.jpg", extractor_of(small_model()), FeatureStore(tmp_path / "features")
    if change is None:
        twice.write_bytes(first[1].read_bytes())
    else:
        change(Image.open(first[1])).save(twice, quality=95)
    for _ in range(2):
        classifier = Classifier(extractor, store)
        (note,) = classifier.enroll({"a": first[:3], "b": [*second[:2], twice]})
        both = f"{first[1]} of class 'a' and {twice} of class 'b' are the same photo"
        assert str(note) == f"{both}; neither is used. Remove one."
        used = [[support.path for support in entry.supports] for entry in classifier.state.classes]
        assert used == [[first[0], first[2]], second[:2]]


def test_changed_photos_of_a_project_are_named_and_used_as_they_are(moths: Path, tmp_path: Path) -> None:
    first, second, *_ = members(moths / "test").values()
    photos = [tmp_path / "1.jpg", tmp_path / "2.jpg"]
    for photo, source in zip(photos, first, strict=False):
        photo.write_bytes(source.read_bytes())
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll({"a": photos, "b": second[:2]})
    state = replace(classifier.state, threshold=0.25)
    assert classifier.enroll_state(state) == []
    assert (classifier.state, classifier.threshold, classifier.rule.threshold) == (state, 0.25, 0.25)
    photos[0].write_bytes(first[5].read_bytes())
    notes = classifier.enroll_state(state)
    what = "has changed since it was added; its current content is used"
    assert list(map(str, notes)) == [f"class 'a': 1 of 2 photos {what}. The first: {photos[0]}"]
    assert classifier.state.classes[0].supports[0].key == content_key(first[5].read_bytes())
    photos[0].write_bytes(second[0].read_bytes()[:100])
    other = Support(tmp_path / "gone.jpg", "0" * 32, 1, 1)
    told = list(map(str, Classifier(extractor_of(small_model())).enroll_state(replace(state, others=(other,)))))
    assert len(told) == 2  # nothing claims that the broken photo is used
    assert told[0].startswith(f"{photos[0]}: ")
    assert told[1] == f"photos of no class: 1 of 1 photos is missing and not used. The first: {other.path}"
    photos[0].write_bytes(first[5].read_bytes())
    classifier.example_maps()
    photos[1].write_bytes(first[6].read_bytes())
    assert len(classifier.example_maps()) == 4  # they are kept
    classifier.maps = None
    with pytest.raises(FrnError, match=r"2\.jpg: has changed since the classes were loaded\. Load them again\.$"):
        classifier.example_maps()


def test_near_copies_of_examples_are_named(moths: Path) -> None:
    first, second, *_ = members(moths / "test").values()
    classifier = Classifier(extractor_of(small_model()))
    classifier.enroll({"a": first[:2], "b": second[:2]})
    copied, other = (found for _, found in read(classifier, [second[1], first[7]]))
    answer = classifier.predict(copied.maps, "another key", copied.look)
    assert answer.near_copy_of == classifier.state.classes[1].supports[1]
    assert classifier.predict(copied.maps, copied.key, copied.look).near_copy_of is None  # an example, not a copy
    assert classifier.predict(copied.maps, "another key").near_copy_of is None
    maps, looks = [other.maps, copied.maps], [other.look, copied.look]
    together = classifier.predict_all(maps, ["x", "y"], looks)
    assert [each.near_copy_of for each in together] == [None, answer.near_copy_of]
    classifier.looks = {}
    assert all(each.near_copy_of is None for each in classifier.predict_all(maps, ["x", "y"], looks))


def test_nothing_can_be_scored_without_classes() -> None:
    classifier = Classifier(extractor_of(small_model()))
    for ask in (lambda: classifier.scorer, lambda: classifier.calibration):
        with pytest.raises(FrnError, match=r"^no classes yet: enroll some first"):
            ask()
