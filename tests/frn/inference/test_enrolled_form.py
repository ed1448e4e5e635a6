"""Previously enrolled classes are loaded from the store and give the same answers."""

import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from frn.estimator.loading import load_extractor
from frn.inference.classifier import Classifier, Prediction
from frn.inference.enrolled_form import head_document, head_of
from frn.inference.extractor import Extractor
from frn.inference.feature_cache import FeatureStore
from frn.inference.session import State
from frn.ridge.parameters import HeadParameters

Enrolled = tuple[Path, State, list[Path], list[object]]


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return load_extractor("conv4")


@pytest.fixture
def enrolled(extractor: Extractor, moths: Path, tmp_path: Path) -> Enrolled:
    """A store, a state with classes of 1, 2 and 3 photos, queries, and the initially computed answers."""
    homes = sorted((moths / "test").iterdir())[:3]
    classes = {home.name: sorted(home.iterdir())[: 1 + place] for place, home in enumerate(homes)}
    queries = [*sorted(homes[0].iterdir())[-2:], classes[homes[2].name][0]]  # the last query is an example
    store = tmp_path / "features.sqlite"
    classifier = Classifier(extractor, FeatureStore(store))
    assert classifier.enroll(classes) == []
    return store, classifier.state, queries, answers(classifier, queries)


def answers(classifier: Classifier, queries: list[Path]) -> list[object]:
    found = [outcome for _, outcome in classifier.classify(queries)]
    assert all(isinstance(outcome, Prediction) for outcome in found)
    shares = {name: each.tolist() for name, each in classifier.leave_one_out.items()}
    return [*found, shares, classifier.looks, classifier.rule, classifier.threshold, classifier.head]


def opened(extractor: Extractor, store: Path, state: State, monkeypatch: pytest.MonkeyPatch) -> Classifier | None:
    """Open a classifier from the store alone, or return None if it had to read photos or maps."""
    classifier = Classifier(extractor, FeatureStore(store))

    def refuse(*_: object, **__: object) -> None:
        raise LookupError

    with monkeypatch.context() as patch:
        patch.setattr(Extractor, "read", refuse)
        try:
            assert classifier.enroll_state(state) == []
        except LookupError:
            return None
    return classifier


def test_stored_classes_open_without_photos_and_give_the_same_answers(
    extractor: Extractor, enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state, queries, before = enrolled
    again = opened(extractor, store, state, monkeypatch)
    assert again is not None
    assert answers(again, queries) == before


def test_stored_form_depends_on_names_order_photos_and_model(
    extractor: Extractor, enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state, *_ = enrolled
    first, second, third = state.classes
    renamed = State((type(first)(first.id, "another", first.supports), second, third))
    shorter = State((first, second, type(third)(third.id, third.name, third.supports[:2])))
    for changed in (renamed, State((second, first, third)), shorter):
        assert opened(extractor, store, changed, monkeypatch) is None
    assert opened(load_extractor("resnet12-small"), store, state, monkeypatch) is None


def test_a_changed_photo_is_read_again(
    extractor: Extractor, enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state, *_ = enrolled
    photo = state.classes[0].supports[0].path
    os.utime(photo, ns=(1, 1))
    assert opened(extractor, store, state, monkeypatch) is None
    assert Classifier(extractor, FeatureStore(store)).enroll_state(state) == []  # only its date has changed


def test_a_damaged_form_is_computed_again(
    extractor: Extractor, enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state, queries, before = enrolled
    with sqlite3.connect(store) as database:
        (data,) = database.execute("SELECT data FROM maps WHERE image LIKE 'classes-%'").fetchone()
        wrong = bytearray(data)
        wrong[len(wrong) // 2] ^= 1
        database.execute("UPDATE maps SET data = ? WHERE image LIKE 'classes-%'", (bytes(wrong),))
    assert opened(extractor, store, state, monkeypatch) is None
    classifier = Classifier(extractor, FeatureStore(store))
    assert classifier.enroll_state(state) == []
    assert answers(classifier, queries) == before
    assert opened(extractor, store, state, monkeypatch) is not None


def test_enrolling_the_same_photos_again_uses_the_stored_form(
    extractor: Extractor, enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state, queries, before = enrolled
    classifier = Classifier(extractor, FeatureStore(store))
    monkeypatch.setattr("frn.inference.classifier.enroll", lambda *_: pytest.fail("it is computed again"))
    assert classifier.enroll({entry.name: [s.path for s in entry.supports] for entry in state.classes}) == []
    assert answers(classifier, queries) == before
    assert classifier.state == state
    assert (classifier.threshold_override, classifier.false_rejections) == (None, 0.05)


def test_a_stored_head_is_used_only_for_its_classes_and_if_it_is_whole(
    extractor: Extractor, enrolled: Enrolled
) -> None:
    _, state, *_ = enrolled
    head = HeadParameters(0.5, 0.25, 3.0)
    document = head_document(head, state, extractor)
    assert head_of(document, state, extractor) == head
    assert head_of(document, State(state.classes[:2]), extractor) is None
    for field in ("sha256", "prior"):
        other: Any = SimpleNamespace(sha256=extractor.sha256, prior=extractor.prior)
        setattr(other, field, "another")
        assert head_of(document, state, other) is None
    damaged: list[object] = [None, [], {}]
    for wrong in (*damaged, document | {"alpha": "x"}, document | {"beta": 51.0}, document | {"delta": 1.0}):
        assert head_of(wrong, state, extractor) is None
