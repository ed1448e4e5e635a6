"""`--tta auto`: photos whose answer is unsure get a second look, at one view, if leave-one-out says that it gains."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.estimator.loading import load_classifier, load_extractor
from frn.evaluation.labelled import score_labelled
from frn.features.extractor import Tta
from frn.features.feature_cache import FeatureStore
from frn.images.opening import open_image
from frn.inference.classifier import Classifier, Prediction
from frn.inference.enrolled_form import LeftOut
from frn.inference.map_classifier import MapClassifier
from frn.inference.second_look import SecondLook
from frn.projects.class_files import class_files
from tests.commands import frn
from tests.drawings import DRAWINGS

MOTHS = DRAWINGS / "moths"
pytestmark = pytest.mark.usefixtures("warm_cache")
QUERIES = sorted((DRAWINGS / "queries").iterdir())


def fitted(tta: Tta) -> FewShotClassifier:
    return FewShotClassifier("conv4", tta=tta, device="cpu").fit(MOTHS)


def set_sure(model: FewShotClassifier, sure: float) -> Classifier:
    classifier = model.classifier_
    assert classifier.second is not None
    classifier.second.sure, classifier.extractor.ahead = sure, sure > 1
    return classifier


def second_answers(plain: FewShotClassifier, views: FewShotClassifier, gamma: float) -> NDArray[np.float64]:
    """Return the probabilities from the view of each query in which the best class leads most, by the plain errors."""
    answers = []
    for path in QUERIES:
        errors, classifier = plain.error_map(path), views.classifier_
        h, w = (round(2 * side / 3) for side in errors.shape[1:])
        means = [errors[:, y, x].mean((1, 2)) for y in (np.s_[:h], np.s_[-h:]) for x in (np.s_[:w], np.s_[-w:])]
        ((_, seen),) = classifier.read([path])
        assert not isinstance(seen, FrnError)
        part = np.split(seen.maps, 4)[int(np.argmax([np.mean(each) - np.min(each) for each in means]))]
        logits = -gamma * classifier.scorer.class_errors(part[None], [None])[0]
        answers.append(np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())
    return np.stack(answers)


def test_answers_below_the_limit_are_those_of_the_best_view_at_every_door(tmp_path: Path) -> None:
    plain, views, auto = (fitted(tta) for tta in ("none", "views", "auto"))
    one = plain.predict_proba(QUERIES)
    second = set_sure(auto, 0.0).second
    assert second is not None
    closer = second_answers(plain, views, second.views[0].head.gamma)
    for sure in (0.0, float(np.median(one.max(1))), 2.0):
        expected = np.where(one.max(1, keepdims=True) < sure, closer, one)
        classifier = set_sure(auto, sure)
        np.testing.assert_allclose(auto.predict_proba(QUERIES), expected, rtol=1e-4)
        images = [np.asarray(open_image(path)) for path in QUERIES]
        np.testing.assert_allclose(auto.predict_proba(images), expected, rtol=1e-4)
        files = [answer for _, answer in classifier.classify(QUERIES) if isinstance(answer, Prediction)]
        np.testing.assert_allclose([list(each.probabilities.values()) for each in files], expected, rtol=1e-4)
        members = {name: [path for path in QUERIES if path.name.startswith(name)] for name in classifier.names}
        scored = {Path(each.image): each.probabilities for each in score_labelled(classifier, members).known}
        answer = next(list(scored[path].values()) for path in QUERIES if path in scored)
        np.testing.assert_allclose(answer, expected[0], rtol=1e-4, atol=1e-6)
        shape = (views if one[0].max() < sure else plain).error_map(QUERIES[0]).shape
        assert auto.error_map(QUERIES[0]).shape == shape
    auto.save(tmp_path / "moths.frn.json")
    assert json.loads((tmp_path / "moths.frn.json").read_text())["model"]["tta"] == "auto"
    again, _ = load_classifier(tmp_path / "moths.frn.json", device="cpu")
    for other in (pickle.loads(pickle.dumps(auto)).classifier_, again):
        loaded, fresh = other.second, fitted("auto").classifier_.second
        assert loaded and fresh  # noqa: PT018
        assert loaded.sure == pytest.approx(fresh.sure)
        loaded.sure = 2.0
        probabilities = [each.probabilities for _, each in other.classify(QUERIES) if isinstance(each, Prediction)]
        np.testing.assert_allclose([list(each.values()) for each in probabilities], closer, rtol=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "limit"),
    [
        ([1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1], 3),  # the surest answer that is corrected is the fourth
        ([0, 1, 0, 0, 0, 0], [1, 0, 0, 1, 1, 1], 0),  # at most half of the examples get one
        ([1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0], None),  # two may be chance: no second look
        ([1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], None),
    ],
)
def test_the_limit_is_the_surest_answer_that_a_second_look_corrects_or_a_share(
    first: list[int], second: list[int], limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = Classifier(load_extractor("conv4", "cpu", "auto"))
    classifier.enroll(class_files(MOTHS).members)
    assert classifier.second is not None
    labels = np.zeros(6, np.intp)
    margins = np.array([0.6, 0.5, 0.4, 0.3, 0.2, 0.1])

    def errors(right: list[int]) -> NDArray[np.float64]:
        return np.stack([np.where(right, 0, margins), np.where(right, margins, 0)], 1)

    none = np.zeros(6)
    classifier.left_out = LeftOut(errors(first), labels, none, none[:, None], none[:, None])
    classifier.second.closer.left_out = LeftOut(errors(second), labels, none, none[:, None], none[:, None])
    monkeypatch.setattr(SecondLook, "_leave_out", lambda self, _: self.closer.left_out)
    monkeypatch.setattr(MapClassifier, "use_stored", lambda *_: True)
    note = classifier.second.enroll(classifier)
    shares = 1 / (1 + np.exp(-classifier.head.gamma * margins))
    expected = 0 if limit is None else min(shares[limit] + 1e-9, np.quantile(shares, 0.5))
    assert classifier.second.sure == pytest.approx(expected, abs=1e-8)
    assert "second look: by leave-one-out, it is right for" in str(note)
    answers, share = classifier.second.left_out_answers(classifier)
    assert (answers == labels).sum() >= max(sum(first), sum(second) - 2)
    assert share == (shares < expected).mean()


def test_one_photo_per_class_gets_no_second_look() -> None:
    classifier = Classifier(load_extractor("conv4", "cpu", "auto"))
    notes = classifier.enroll({name: paths[:1] for name, paths in class_files(MOTHS).members.items()})
    assert "no photo is looked at twice: leave-one-out needs a class with two photos" in map(str, notes)
    assert classifier.second is not None
    assert classifier.second.sure == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["group", str(MOTHS), "--out", "X"], "groups are not answers"),
        (["export", "--classes", str(MOTHS), "--out", "X"], "an exported graph is the same for every photo"),
        (["export", "--classes", str(MOTHS), "--web", "X"], "an exported graph is the same for every photo"),
        (["classify", str(MOTHS), str(QUERIES[0]), "--find", "one"], "Use one of them"),
        (["classify", str(MOTHS), str(QUERIES[0]), "--transductive"], "Remove --tta auto, or use --tta views"),
        (
            ["classify", str(MOTHS), str(QUERIES[0]), "--report", "X.html"],
            "Remove --report, or use --tta views or none",
        ),
    ],
)
def test_what_needs_one_kind_of_map_is_refused(words: list[str], reason: str, tmp_path: Path) -> None:
    words = [str(tmp_path / word) if word.startswith("X") else word for word in words]
    refused = frn(*words, "--model", "conv4", "--tta", "auto")
    assert refused.exit_code == 1, refused.output
    assert reason in refused.stderr
    assert not list(tmp_path.glob("X*"))


def test_models_compare_proposes_test_time_augmentation_where_it_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["models", "compare", str(MOTHS), "--model", "conv4", "--tta", "hflip", "--tta", "auto"]
    compared = json.loads(frn(*words, "--json").stdout)["models"]
    assert list(compared) == ["conv4", "conv4 --tta hflip", "conv4 --tta auto"]
    table = frn(*words).stdout
    assert ("No --tta is more accurate" in table) == (not any("gain" in each for each in compared.values()))
    from frn.evaluation import comparison
    from frn.evaluation.accuracy import Accuracy

    monkeypatch.setattr(comparison, "gain", lambda one, other: Accuracy(5.0, 4.0, 30))
    printed = frn(*words).stdout
    assert "accurate: +5.0 ± 4.0 points for" in printed
    assert f"next: frn classify {MOTHS} PHOTO --model conv4 --tta hflip" in printed


def test_an_exported_classifier_with_second_looks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FrnError, match="decides for each photo whether to look twice"):
        fitted("auto").export_onnx(tmp_path / "moths.onnx")


def test_photos_of_no_class_also_get_second_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    *classes, (_, others) = class_files(MOTHS).members.items()
    for _ in range(2):
        classifier = Classifier(load_extractor("conv4", "cpu", "auto"), FeatureStore())
        classifier.enroll(dict(classes[:3]), others[:3])
        monkeypatch.setattr(SecondLook, "_leave_out", lambda *_: pytest.fail("what was enrolled is stored"))
        assert classifier.second is not None
        classifier.second.sure = 2.0
        known = [answer.known for _, answer in classifier.classify(others[:3]) if isinstance(answer, Prediction)]
        assert len(set(known)) == 3
        for view in classifier.second.views:
            np.testing.assert_allclose(view.calibration.others, known, rtol=1e-6)


def test_large_classes_are_also_seen_as_if_they_were_small() -> None:
    classes = {
        home.name: sorted(home.iterdir())[:k] for home, k in zip(sorted(MOTHS.iterdir()), (2, 5, 5), strict=False)
    }
    classifier = FewShotClassifier("conv4", tta="auto", device="cpu").fit(classes).classifier_
    assert classifier.second is not None
    left_out = classifier.second.views[0].left_out
    assert left_out is not None
    as_small = left_out.smaller[:, 0]
    assert (as_small >= 0).tolist() == (left_out.labels > 0).tolist()  # photos of the two large classes
    own = left_out.errors[np.arange(len(as_small)), left_out.labels]  # with what the larger class takes
    assert as_small[left_out.labels > 0].mean() > own[left_out.labels > 0].mean()  # two photos rebuild less than five
    large = left_out.labels > 0
    near = left_out.distances[large, left_out.labels[large]].mean()
    assert near / 2 < left_out.smaller[large, 1].mean() < 2 * near  # in the same unit
