"""The Python API: files, images and arrays in; labels, probabilities, projects and ONNX files out."""

import enum
import io
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from frn import FewShotClassifier
from frn.errors import FrnError, FrnWarning
from frn.projects.project import load_project
from tests.drawings import DRAWINGS, MOTHS

pytestmark = pytest.mark.usefixtures("warm_cache")


def sample_files(shots: int = 3) -> dict[str, list[str]]:
    return {home.name: [str(path) for path in sorted(home.iterdir())[:shots]] for home in sorted(MOTHS.iterdir())}


QUERIES = sorted((DRAWINGS / "queries").iterdir())
TRUTH = [path.stem.rpartition(" ")[0] for path in QUERIES]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FewShotClassifier:
    return FewShotClassifier(device="cpu").fit(sample_files())


def test_classifier_follows_scikit_learn_conventions(fitted: FewShotClassifier) -> None:
    labels, shares = fitted.predict(QUERIES), fitted.predict_proba(QUERIES)
    assert shares.shape == (18, 6)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert [fitted.classes_[i] for i in shares.argmax(1)] == labels.tolist()
    assert fitted.score(QUERIES, TRUTH) == np.mean(labels == np.array(TRUTH)) >= 0.8
    assert fitted.explained(QUERIES).shape == (18, 6)
    assert 0 < fitted.threshold_ < 1
    assert fitted.is_unknown(QUERIES).mean() <= 0.3
    assert fitted.error_map(QUERIES[0]).shape == (6, 6, 6)


def test_transductive_photos_refine_classes_and_leave_answers_for_examples_unchanged() -> None:
    few = FewShotClassifier("conv4", device="cpu").fit(sample_files(1))
    labels = np.array(TRUTH)
    alone = few.predict_proba(QUERIES)
    together = few.predict_proba(QUERIES, transductive=True)
    assert not np.allclose(alone, together)
    one_by_one = [(answer.explained, answer.known) for answer in few.answers(QUERIES)]
    np.testing.assert_array_equal(np.stack([few.explained(QUERIES).max(1), few.known(QUERIES)], 1), one_by_one)
    answers = few.predict(QUERIES), few.predict(QUERIES, transductive=True)
    for answered, shares in zip(answers, (alone, together), strict=True):
        assert answered.tolist() == few.classes_[shares.argmax(1)].tolist()
    assert (answers[0] == labels).sum() <= (answers[1] == labels).sum()
    assert answers[0].tolist() != answers[1].tolist()
    np.testing.assert_allclose(few.predict_proba(QUERIES[::-1], transductive=True)[::-1], together, atol=1e-3)
    example = sample_files(1)[labels[0]]
    np.testing.assert_allclose(few.predict_proba(example, transductive=True), few.predict_proba(example))


def test_lists_with_labels_give_the_same_result_as_mappings(fitted: FewShotClassifier) -> None:
    flat = [(path, name) for name, paths in sample_files().items() for path in paths]
    other = FewShotClassifier().fit([path for path, _ in flat], [name for _, name in flat])
    np.testing.assert_array_equal(other.predict_proba(QUERIES[:3]), fitted.predict_proba(QUERIES[:3]))


def test_saved_classifier_loads_unchanged(fitted: FewShotClassifier, tmp_path: Path) -> None:
    project = tmp_path / "moths.frn.json"
    fitted.save(project)
    with pytest.raises(FrnError, match="already"):
        fitted.save(project)
    fitted.save(project, replace=True)
    loaded = FewShotClassifier.load(project)
    np.testing.assert_array_equal(loaded.predict_proba(QUERIES), fitted.predict_proba(QUERIES))
    assert loaded.threshold_ == fitted.threshold_


def test_missing_photo_gives_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(MOTHS, tmp_path / "moths")
    files = {home.name: sorted(home.iterdir())[:2] for home in sorted((tmp_path / "moths").iterdir())}
    FewShotClassifier(threshold=0.5).fit(files).save(tmp_path / "m.frn.json")
    name, other, *_ = files
    files[name][0].unlink()
    files[other][0].write_bytes(files[other][0].read_bytes() + b"changed")
    with pytest.warns(UserWarning, match="1 of 2 photos") as caught:
        loaded = FewShotClassifier.load(tmp_path / "m.frn.json")
    assert [str(each.message).partition(";")[0].partition(". The")[0] for each in caught] == [
        f"class {name!r}: 1 of 2 photos is missing and not used",
        f"class {other!r}: 1 of 2 photos has changed since it was added",
    ]
    assert {each.filename for each in caught} == {__file__}
    assert loaded.threshold_ == 0.5
    loaded.save(tmp_path / "m.frn.json", replace=True)  # the missing one may come back
    saved = {entry.name: entry.supports for entry in load_project(tmp_path / "m.frn.json").state.classes}
    assert {name: sorted(photo.path for photo in photos) for name, photos in saved.items()} == files


def test_exported_file_gives_the_same_answers(fitted: FewShotClassifier, tmp_path: Path) -> None:
    fitted.export_onnx(tmp_path / "moths.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "moths.onnx", providers=["CPUExecutionProvider"])
    for path, expected in zip(QUERIES, fitted.predict_proba(QUERIES), strict=True):
        pixels = np.asarray(Image.open(path).convert("RGB"))
        label, probability = session.run(["label", "probability"], {"image": pixels})
        np.testing.assert_allclose(probability, expected, atol=5e-3)
        assert str(label) == fitted.classes_[expected.argmax()]


def test_numpy_threshold_is_saved(tmp_path: Path) -> None:
    float32: Any = np.float32(0.25)
    classifier = FewShotClassifier("conv4", threshold=float32, device="cpu").fit(sample_files(1))
    classifier.save(tmp_path / "t.frn.json")
    classifier.export_onnx(tmp_path / "t.onnx")
    assert FewShotClassifier.load(tmp_path / "t.frn.json", device="cpu").threshold == 0.25


def test_mistakes_are_reported(fitted: FewShotClassifier, tmp_path: Path) -> None:
    path, array = str(QUERIES[0]), np.zeros((40, 40, 3), np.uint8)
    other: Any = "cuda:0"
    opened: Any = io.BytesIO()
    clf = FewShotClassifier()
    refused: list[tuple[Callable[[], object], str]]
    refused = [
        (lambda: clf.predict([path]), "no classes yet"),
        (lambda: clf.save(tmp_path / "x.frn.json"), "no classes yet"),
        (lambda: clf.fit({}), "no classes to enroll"),
        (lambda: clf.fit({"a": []}), "class 'a' has no photos"),
        (lambda: clf.fit({"a": [path], "b": [path]}), "is in class 'a' and in class 'b'"),
        (lambda: clf.fit({"a": [tmp_path / "none.jpg"]}), "cannot be read"),
        (lambda: clf.fit({"a": [array], "b": [path]}).save(tmp_path / "x.frn.json"), "only photos that are files"),
        (lambda: FewShotClassifier("conv5"), "Did you mean 'conv4'"),
        (
            lambda: FewShotClassifier(device=other).fit({"a": [path]}),
            "device must be one of auto, cpu, cuda, not 'cuda:0'",
        ),
        (lambda: FewShotClassifier(tta=other).fit({"a": [path]}), "tta must be one of none, hflip, views, auto, not"),
        (lambda: FewShotClassifier(threshold=3), "between 0 and 1"),
    ]
    for call, reason in refused:
        with pytest.raises(FrnError, match=reason):
            call()
    refused = [
        (lambda: clf.fit([path]), "requires y to be passed"),
        (lambda: clf.fit({"a": [path]}, ["a"]), "y is for a list"),
        (lambda: clf.fit({"a": [array.astype(float) - 1]}), "must be between 0 and 1"),
        (lambda: fitted.predict(path), "photos must be a list"),
        (lambda: fitted.predict(opened), "photos must be a list"),
        (lambda: fitted.score([path], []), "1 photos but 0 labels"),
        (lambda: fitted.score([], []), "no photos to score"),
    ]
    for call, reason in refused:
        with pytest.raises(ValueError, match=reason):
            call()


def test_copies_count_once_and_photos_of_two_classes_in_neither(tmp_path: Path) -> None:
    first, second, *_ = sample_files(3).values()
    for photo, name in ((first[0], "once.png"), (first[1], "twice.png")):
        Image.open(photo).save(tmp_path / name)
    plain = FewShotClassifier("conv4").fit({"a": [first[0], first[2]], "b": second})
    classes = {"a": [*first, str(tmp_path / "once.png")], "b": [*second, str(tmp_path / "twice.png")]}
    clf = FewShotClassifier("conv4")
    with pytest.warns(FrnWarning, match="near copy of another|are the same photo") as told:
        clf.fit(classes)
    assert [each.filename for each in told] == [__file__] * 2
    np.testing.assert_array_equal(clf.predict_proba(second), plain.predict_proba(second))
    assert clf.threshold_ == plain.threshold_
    parts = FewShotClassifier("conv4").fit({"a": first, "b": second})
    with pytest.warns(FrnWarning):
        parts.partial_fit({name: photos[3:] for name, photos in classes.items()})
    np.testing.assert_array_equal(parts.predict_proba(second), plain.predict_proba(second))


def test_only_photo_of_a_new_class_keeps_another_label_with_a_warning() -> None:
    classifier, (photo, similar) = FewShotClassifier("conv4").fit(sample_files(2)), QUERIES[:2]
    classifier.partial_fit([photo], ["new"])
    with pytest.warns(FrnWarning, match="only photo of class 'new' gets another label.*not its own witness") as told:
        assert classifier.predict([photo]).tolist() != ["new"]
    assert [each.filename for each in told] == [__file__]
    assert [answer.example_of for answer in classifier.answers([photo, similar])] == ["new", None]


class Colour(enum.Enum):
    red = 1
    blue = 2


@pytest.mark.parametrize(
    "labels",
    [["jay", "wren"], [1, 2], [np.int64(3), np.int64(4)], [2**70, 1], [0.5, 1e-7], [np.float32(0.1), 2], [True, False]],
    ids=str,
)
def test_project_keeps_the_type_of_labels(labels: list[Any], tmp_path: Path) -> None:
    photos = [path for paths in sample_files(2).values() for path in paths][:4]
    y = [labels[place // 2] for place in range(4)]
    before = FewShotClassifier("conv4").fit(photos, y)
    before.save(tmp_path / "x.frn.json")
    after = FewShotClassifier.load(tmp_path / "x.frn.json")
    assert [(type(label), label) for label in after.classes_.tolist()] == [
        (type(label), label) for label in before.classes_.tolist()
    ]
    assert after.score(photos, y) == before.score(photos, y) == 1
    text = (tmp_path / "x.frn.json").read_text().replace('"name": "', '"name": "renamed ')
    (tmp_path / "x.frn.json").write_text(text)  # as the app does: the names are no longer numbers
    assert {name[:8] for name in FewShotClassifier.load(tmp_path / "x.frn.json").classes_} == {"renamed "}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([None, "a"], "label number 1 is None: every photo needs a label"),
        ([*Colour], "label number 1 is <Colour.red: 1>: labels must be text or numbers"),
        ([(1,), (2, 3)], r"label number 1 is \(1,\): labels must be text or numbers"),
        ([(1, 2), (3, 4)], r"not an array of shape \(2, 2\)"),
        (["a", "a\0"], "numpy cannot store these labels"),
        ([b"a", "a"], "labels must be all text or all numbers"),
        (np.array([b"jay", b"wren"]), "a project keeps labels that are text, .* not bytes"),
    ],
    ids=str,
)
def test_labels_that_a_project_cannot_keep_are_refused(labels: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(FrnError, match=reason):
        FewShotClassifier("conv4").fit(QUERIES[:2], labels).save(tmp_path / "x.frn.json")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda few: type(few)(threshold="0.5"), "threshold must be a number between 0 and 1, not '0.5'"),
        (lambda few: type(few)(threshold=True), "threshold must be a number between 0 and 1, not True"),
        (lambda few: type(few)(5), "model must be a name or a path, not 5"),
        (lambda few: few.fit(set(QUERIES[:2]), [1, 2]), "photos must be a list, whose order .* not set"),
        (lambda few: few.fit({"a": {QUERIES[0]}}), "photos must be a list, whose order .* not set"),
        (lambda few: few.fit(QUERIES[:2], {1, 2}), "labels must be a list with one label per photo, not set"),
        (lambda few: few.fit(QUERIES[:2], 5), "labels must be a list with one label per photo, not int"),
        (lambda few: few.predict(None), "photos must be a list, whose order .* not NoneType"),
        (lambda few: few.predict({QUERIES[0]}), "photos must be a list, whose order .* not set"),
        (lambda few: few.predict(QUERIES[:1], transductive="no"), "transductive must be True or False, not 'no'"),
        (lambda few: few.predict_proba(QUERIES[:1], transductive=0), "transductive must be True or False, not 0"),
        (lambda few: few.save("x.frn.json", replace="no"), "replace must be True or False, not 'no'"),
        (lambda few: few.save(5), "a file is named by text or a Path, not 5"),
        (lambda few: few.load(None), "a file is named by text or a Path, not None"),
    ],
)
def test_arguments_of_the_wrong_type_give_one_clear_error(
    call: Callable[[Any], object], reason: str, fitted: FewShotClassifier
) -> None:
    with pytest.raises(FrnError, match=reason):
        call(fitted)


def test_a_photo_passed_twice_counts_once() -> None:
    path = str(QUERIES[0])
    once, twice = (FewShotClassifier().fit({"a": [path] * n, "b": [str(QUERIES[5])]}) for n in (1, 2))
    np.testing.assert_array_equal(once.predict_proba(QUERIES), twice.predict_proba(QUERIES))


def test_eight_threads_get_the_same_answers_as_a_single_one(tmp_path: Path) -> None:
    """Many threads share a classifier; one opened in a different thread can be fitted and pickled."""
    photos, queries = sample_files(2), sorted(map(str, (DRAWINGS / "queries").glob("*.jpg")))[:3]
    classifier = FewShotClassifier("conv4").fit(photos)
    alone = classifier.predict_proba(queries)
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: classifier.predict_proba(queries), range(24)):
            np.testing.assert_array_equal(answer, alone)
        again = pool.submit(lambda: classifier.fit(photos).predict_proba(queries)).result()
        classifier.save(tmp_path / "x.frn.json")
        loaded = pool.submit(FewShotClassifier.load, tmp_path / "x.frn.json").result()
    np.testing.assert_array_equal(again, alone)
    np.testing.assert_array_equal(loaded.predict_proba(queries), alone)
    np.testing.assert_array_equal(loaded.fit(photos).predict_proba(queries), alone)
