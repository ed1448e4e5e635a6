"""`FewShotClassifier` with scikit-learn's tools: labels of any type, clone, cross-validation, search, pickles."""

import copy
import io
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

from frn import FewShotClassifier
from frn.errors import FrnError
from frn.estimator.labels import as_labels
from frn.features.feature_cache import content_key
from frn.features.onnx_runtime import ForeignModel, OwnModel
from frn.models.model import save_model
from frn.models.zoo import shipped_extractors
from frn.projects.project import load_project, save_project
from frn.projects.session import Support
from tests.drawings import DRAWINGS
from tests.models import small_model

MOTHS = sorted((DRAWINGS / "moths").iterdir())[:3]
pytestmark = pytest.mark.usefixtures("warm_cache")


def photos(classes: int = 3, shots: int = 4) -> tuple[Any, list[int]]:
    """Pixels (n, h, w, 3) of rendered moths, and their classes."""
    files = [(path, label) for label, home in enumerate(MOTHS[:classes]) for path in sorted(home.iterdir())[:shots]]
    return np.stack([np.asarray(Image.open(p).convert("RGB").resize((48, 48))) for p, _ in files]), [
        c for _, c in files
    ]


@pytest.fixture(scope="module")
def small() -> FewShotClassifier:
    return FewShotClassifier("conv4", device="cpu")


@pytest.mark.parametrize(
    "labels",
    [[10, 2, 33], ["wren", "jay", "owl"], np.array([3, 1, 2], np.uint8), [True, False], [1.5, 0.5, 2.0]],
    ids=str,
)
def test_labels_keep_their_type_in_scoring(small: FewShotClassifier, labels: Any) -> None:
    x, y = photos(len(labels))
    given = as_labels(labels)[y]
    fitted = clone(small).fit(x, given.tolist() if isinstance(labels, list) else given)
    assert fitted.classes_.dtype == given.dtype
    assert fitted.predict(x).dtype == given.dtype
    assert set(fitted.classes_.tolist()) == set(as_labels(labels).tolist())
    assert fitted.score(x, given) == np.mean(fitted.predict(x) == given) > 0.9
    wins = fitted.classes_[fitted.predict_proba(x).argmax(1)]
    np.testing.assert_array_equal(wins, fitted.predict(x))


def test_labels_are_sorted_so_that_scorers_find_their_columns(small: FewShotClassifier) -> None:
    x, y = photos()
    shuffled = np.array([7, 3, 5])[y]
    fitted = clone(small).fit(x, shuffled)
    assert fitted.classes_.tolist() == [3, 5, 7]
    assert log_loss(shuffled, fitted.predict_proba(x)) < np.log(3)
    by_mapping = clone(small).fit({7: x[:4], 3: x[4:8], 5: x[8:]})
    np.testing.assert_array_equal(by_mapping.predict_proba(x), fitted.predict_proba(x))


@pytest.mark.parametrize("labels", [[1, 2, 1.0], np.array([1, 2, 1.0], object)], ids=str)
def test_equal_labels_form_one_class(small: FewShotClassifier, labels: Any) -> None:
    x, y = photos()
    fitted = clone(small).fit(x, as_labels(labels)[y])
    assert len(fitted.classes_) == 2
    assert fitted.partial_fit(x[:1], [1.0]).predict(x).tolist() == [labels[label] for label in y]


def test_blanks_around_a_label_do_not_count(small: FewShotClassifier, tmp_path: Path) -> None:
    files = [path for home in MOTHS[:2] for path in sorted(home.iterdir())[:2]]
    fitted = clone(small).fit(files, ["jay ", "jay", " wren", "wren\t"])
    fitted.save(tmp_path / "b.frn.json")
    for classifier in (fitted, FewShotClassifier.load(tmp_path / "b.frn.json", device="cpu")):
        assert classifier.classes_.tolist() == ["jay", "wren"]
        assert classifier.score(files, ["jay", "jay ", "wren", "wren"]) == 1


def test_impossible_labels_are_reported(small: FewShotClassifier) -> None:
    x, y = photos()
    fitted = clone(small).fit(x, y)
    with pytest.raises(ValueError, match="the labels are text, but the classes were fitted as numbers"):
        fitted.score(x, [str(label) for label in y])
    with pytest.raises(ValueError, match="the labels are numbers, but the classes were fitted as text"):
        clone(small).fit(x[:2], ["a", "b"]).score(x[:1], [2**70])


def test_a_single_photo_is_not_treated_as_a_list_of_its_rows(small: FewShotClassifier) -> None:
    x, y = photos()
    fitted = clone(small).fit(x, y)
    for alone in (x[0], Image.fromarray(x[0])):
        with pytest.raises(ValueError, match="put a single photo in brackets"):
            fitted.predict(alone)
    assert fitted.predict([x[0]]).shape == fitted.predict(x[:1]).shape == (1,)


def test_clones_copy_only_the_parameters(small: FewShotClassifier) -> None:
    original = FewShotClassifier(Path("conv4"), threshold=0.25, device="cpu").fit(*photos())
    other = clone(original)
    assert other.get_params() == original.get_params()
    assert other.get_params() == {
        "model": Path("conv4"),
        "threshold": 0.25,
        "tta": "none",
        "find": "none",
        "device": "cpu",
    }
    assert not hasattr(other, "classes_")
    assert is_classifier(other)
    tags = get_tags(other)
    assert (tags.target_tags.required, tags.input_tags.two_d_array) == (True, False)  # photos are no table
    assert (tags.input_tags.three_d_array, tags.input_tags.string) == (True, True)
    assert other.set_params(threshold=None, model="conv4").get_params()["model"] == "conv4"
    with pytest.raises(ValueError, match="has no parameter 'depth'; it has model, threshold, tta, find, device"):
        other.set_params(depth=3)
    with pytest.raises(NotFittedError):
        check_is_fitted(other)
    check_is_fitted(original)


def test_cross_validation_and_grid_search_work(small: FewShotClassifier) -> None:
    x, y = photos()
    scores = cross_val_score(small, list(x), y, cv=2)
    assert scores.mean() > 0.5
    pipeline = Pipeline([("crop", FunctionTransformer(lambda images: images[:, 4:-4, 4:-4])), ("frn", small)])
    search = GridSearchCV(pipeline, {"frn__threshold": [0.0, 1.0]}, cv=2, scoring="neg_log_loss").fit(x, y)
    assert search.best_estimator_.predict(x).shape == (12,)
    assert search.best_estimator_.named_steps["frn"].threshold_ == search.best_params_["frn__threshold"]


def by_joblib(fitted: FewShotClassifier) -> FewShotClassifier:
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), by_joblib])
def test_copies_give_the_same_answers(small: FewShotClassifier, copied: Any) -> None:
    x, y = photos()
    fitted = clone(small).fit(x, y)
    other = copied(fitted)
    np.testing.assert_array_equal(other.predict_proba(x), fitted.predict_proba(x))
    np.testing.assert_array_equal(other.classes_, fitted.classes_)
    assert other.threshold_ == fitted.threshold_
    assert other.partial_fit(255 - x[:1], [9]).classes_.tolist() == [0, 1, 2, 9]


def test_a_copy_trusts_its_model_no_more_than_the_original(small: FewShotClassifier, tmp_path: Path) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(shipped_extractors()["conv4"].read_bytes())
    for original in (clone(small), clone(small).set_params(model=path)):
        fitted = original.fit(*photos())
        copied = pickle.loads(pickle.dumps(fitted))
        kinds = [type(each.classifier_.extractor.session) for each in (fitted, copied)]
        assert kinds == [OwnModel if original.model == "conv4" else ForeignModel] * 2


def test_partial_fit_equals_one_fit(small: FewShotClassifier, tmp_path: Path) -> None:
    x, y = photos()
    whole = clone(small).fit(x, y)
    parts = clone(small).partial_fit(x[:2], y[:2])
    parts.partial_fit(x[2:7], y[2:7]).partial_fit(x[6:], y[6:])
    np.testing.assert_array_equal(parts.predict_proba(x), whole.predict_proba(x))
    assert parts.threshold_ == whole.threshold_

    with pytest.raises(FrnError, match="is in class '0' and in class '2'"):
        parts.partial_fit(x[:1], [2])
    with pytest.raises(ValueError, match="the labels are text, but the classes were fitted as numbers"):
        parts.partial_fit(255 - x[:1], ["a"])
    np.testing.assert_array_equal(parts.predict_proba(x), whole.predict_proba(x))  # unchanged


@pytest.mark.parametrize(("first", "more"), [([1, 2], [2.5]), ([1, 2], [1.0]), ([True, False], [1])], ids=str)
def test_added_labels_may_have_a_different_type(small: FewShotClassifier, first: list[Any], more: Any) -> None:
    x, _ = photos()
    parts, whole = clone(small).fit(x[::4][:2], first).partial_fit(x[8:9], more), clone(small).fit(x[::4], first + more)
    assert parts.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_array_equal(parts.predict_proba(x), whole.predict_proba(x))


def test_partial_fit_with_a_different_model_is_refused(small: FewShotClassifier) -> None:
    x, y = photos()
    fitted = clone(small).fit(x[:8], y[:8])
    for changed in ({"tta": "hflip"}, {"model": "resnet12-small"}):
        with pytest.raises(FrnError, match="fitted with a different model or tta: fit them again"):
            clone(small).fit(x[:8], y[:8]).set_params(**changed).partial_fit(x[8:], y[8:])
    assert fitted.set_params(device="auto").partial_fit(x[8:], y[8:]).classes_.tolist() == [0, 1, 2]


def test_cached_maps_belong_to_the_fitted_model(small: FewShotClassifier, tmp_path: Path) -> None:
    files = {home.name: sorted(home.iterdir())[:2] for home in MOTHS}
    queries = files[MOTHS[0].name]
    changed = clone(small).fit(files).set_params(model="resnet12-small")
    changed.save(tmp_path / "m.frn.json")
    assert FewShotClassifier.load(tmp_path / "m.frn.json", device="cpu").model == "conv4"
    anew = pickle.loads(pickle.dumps(changed)).fit(files)
    expected = FewShotClassifier("resnet12-small", device="cpu").fit(files)
    np.testing.assert_array_equal(anew.predict_proba(queries), expected.predict_proba(queries))


def test_loaded_project_accepts_shots_and_can_be_pickled(small: FewShotClassifier, tmp_path: Path) -> None:
    files = {home.name: sorted(home.iterdir()) for home in MOTHS}
    query = files[MOTHS[0].name][4:]
    clone(small).fit({name: paths[:2] for name, paths in files.items()}).save(tmp_path / "m.frn.json")
    loaded = FewShotClassifier.load(tmp_path / "m.frn.json", device="cpu")
    loaded.partial_fit({name: paths[2:4] for name, paths in files.items()})
    whole = clone(small).fit({name: paths[:4] for name, paths in files.items()})
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict_proba(query), whole.predict_proba(query))


def test_photos_marked_as_none_of_the_classes_stay_marked(small: FewShotClassifier, tmp_path: Path) -> None:
    path, files = tmp_path / "m.frn.json", {home.name: sorted(home.iterdir()) for home in MOTHS}
    last, first, *_ = files
    clone(small).fit({name: files[name][:3] for name in files if name != last}).save(path)
    project = load_project(path)
    others = tuple(Support.of(photo, content_key(photo.read_bytes())) for photo in files[last][:3])
    save_project(path, replace(project, state=replace(project.state, others=others)), replace=True)
    loaded = FewShotClassifier.load(path, device="cpu")
    copied = pickle.loads(pickle.dumps(loaded))
    known = [each.classifier_.calibration.others.tolist() for each in (loaded, copied)]
    assert len(known[0]) == 3
    assert known[0] == known[1]
    copied.partial_fit({first: files[first][3:4]}).save(path, replace=True)
    assert [other.key for other in load_project(path).state.others] == [other.key for other in others]
    assert len(copied.classifier_.calibration.others) == 3
    copied.partial_fit({last: files[last][:1]}).save(path, replace=True)
    assert [other.key for other in load_project(path).state.others] == [other.key for other in others[1:]]
    again = clone(small).fit(path)._fitted.classifier
    assert [other.key for other in again.state.others] == [other.key for other in others[1:]]
    assert len(again.calibration.others) == 2


def test_a_pickle_of_a_trained_head_opens(tmp_path: Path) -> None:
    save_model(small_model("proto"), tmp_path / "best.safetensors")
    x, y = photos()
    fitted = FewShotClassifier(tmp_path, device="cpu").fit(x, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(x), fitted.predict(x))


def test_a_model_that_has_not_been_exported_needs_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(small_model(), tmp_path / "best.safetensors")
    monkeypatch.delitem(sys.modules, "frn_export.graphs.backbone", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FrnError, match=r"best\.safetensors: has not been exported yet, and exporting it needs torch"):
        FewShotClassifier(tmp_path, device="cpu").fit(*photos())


def test_error_map_of_an_example_is_that_of_leave_one_out(small: FewShotClassifier) -> None:
    x, y = photos()
    fitted = clone(small).fit(x, y)
    explained, errors = fitted.explained(x[:1]), fitted.error_map(x[0]).mean((1, 2))
    shares = 1 - errors / (errors[1] / (1 - explained[0, 1]))
    np.testing.assert_allclose(shares, explained[0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fields_from_a_newer_version_are_kept_in_a_project(small: FewShotClassifier, tmp_path: Path) -> None:
    path, files = tmp_path / "m.frn.json", {home.name: sorted(home.iterdir()) for home in MOTHS}
    last = MOTHS[2].name
    clone(small).fit({name: files[name][:2] for name in files if name != MOTHS[0].name}).save(path)
    document = json.loads(path.read_text())
    document["future"] = 1
    (entry,) = (entry for entry in document["classes"] if entry["name"] == last)
    entry["colour"] = entry["images"][1]["rating"] = 5
    path.write_text(json.dumps(document))
    loaded = FewShotClassifier.load(path, device="cpu")
    loaded.partial_fit({MOTHS[0].name: files[MOTHS[0].name][:1], last: files[last][2:3]})  # the new class is first
    pickle.loads(pickle.dumps(loaded)).save(path, replace=True)
    document = json.loads(path.read_text())
    assert document["future"] == 1
    assert [entry["name"] for entry in document["classes"] if "colour" in entry] == [last]
    assert [image.get("rating") for image in document["classes"][2]["images"]] == [None, 5, None]
    loaded.fit({name: paths[:1] for name, paths in files.items()}).save(path, replace=True)  # another project
    assert "future" not in json.loads(path.read_text())


def test_pickle_opens_after_a_photo_has_changed(
    small: FewShotClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _ = photos()
    files = [tmp_path / f"{label}.png" for label in "ab"]
    for path, pixels in zip(files, x[::4], strict=False):
        Image.fromarray(pixels).save(path)
    clone(small).fit(files, ["a", "b"]).save(tmp_path / "m.frn.json")
    monkeypatch.setenv("FRN_CACHE", str(files[0] / "nowhere"))  # its feature maps are not stored
    loaded = FewShotClassifier.load(tmp_path / "m.frn.json", device="cpu")
    Image.fromarray(255 - x[0]).save(files[1])
    for _ in range(2):
        with pytest.raises(FrnError, match=r"b\.png: has changed since the classes were loaded"):
            pickle.dumps(loaded)


CHECKS = """
decision_proba_consistency estimator_cloneable estimator_repr estimator_tags_renamed estimators_unfitted
fit1d fit_non_negative get_params_invariance mixin_order n_features_in_after_fitting
no_attributes_set_in_init nonsquare_error parameters_default_constructible requires_y_none set_params
supervised_y_no_nan valid_tag_types
"""


@pytest.mark.parametrize("check", CHECKS.split())
def test_scikit_learn_estimator_checks_pass(check: str) -> None:
    """The scikit-learn checks that do not need rows of numbers as input, since photos are not such rows."""
    getattr(estimator_checks, f"check_{check}")("FewShotClassifier", FewShotClassifier("conv4"))
