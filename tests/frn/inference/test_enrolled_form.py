"""Previously enrolled classes are loaded from the store and give the same answers."""

import hashlib
import os
import shutil
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from frn.errors import FrnError
from frn.estimator.loading import load_extractor
from frn.features.extractor import Extractor
from frn.features.feature_cache import FeatureStore
from frn.images.stamps import stamp_of
from frn.inference.classifier import Classifier, Prediction
from frn.inference.enrolled_form import (
    EnrolledForm,
    are_alike,
    as_project_head,
    classes_key,
    describes,
    form_key,
    from_bytes,
    head_of,
    keep,
    to_bytes,
)
from frn.inference.enrollment import Enrollment
from frn.projects.session import ClassEntry, State, Support
from frn.ridge.enrolment import Allowance
from frn.ridge.parameters import HeadParameters
from tests.campaign.mutations import mutate

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


def test_files_are_opened_again_only_after_a_change(
    extractor: Extractor, moths: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, path = FeatureStore(tmp_path / "features.sqlite"), tmp_path / "a.png"
    one, two = (sorted((moths / "test" / name).iterdir())[0].read_bytes() for name in ("moth 40", "moth 41"))
    path.write_bytes(one)
    os.utime(path, ns=(1, 1))
    (young,) = extractor.keys([path], store)
    assert store.key_of(path, stamp_of(path) or "") is None  # another change could have the same time
    now = time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: now)
    for changed, moved, is_kept in ((3, 9, False), (9, 3, False), (3 + 1e-9, 9, True), (9, 3 + 1e-9, True)):
        stamp = f"1 2 {now - round(changed * 10**9)} {now - round(moved * 10**9)}"
        store.keep_key(path, stamp, "old")
        assert store.key_of(path, stamp) == ("old" if is_kept else None)
    store.keep_key(path, "1 2 3 4", "known")
    assert store.key_of(path, "1 2 3 4") == "known"
    assert store.key_of(path, "1 2 3 5") is None
    store.put_bytes(
        "files", hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest(), f"{stamp_of(path)}\nx".encode()
    )
    assert extractor.keys([path], store) == ["x"]
    path.write_bytes(two + one[: max(0, len(one) - len(two))])
    os.utime(path, ns=(1, 1))
    assert extractor.keys([path], store) not in (["x"], [young])
    path.unlink()
    (missing,) = extractor.keys([path], store)
    assert isinstance(missing, FrnError)
    assert missing.code == "missing"


def test_a_damaged_form_is_computed_again(
    extractor: Extractor, enrolled: Enrolled, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, state, queries, before = enrolled
    with sqlite3.connect(store) as database:
        (data,) = database.execute("SELECT data FROM maps WHERE image LIKE 'form-%'").fetchone()
        wrong = bytearray(data)
        wrong[len(wrong) // 2] ^= 1
        database.execute("UPDATE maps SET data = ? WHERE image LIKE 'form-%'", (bytes(wrong),))
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
    monkeypatch.setattr("frn.inference.enrollment.enroll", lambda *_: pytest.fail("it is computed again"))
    assert classifier.enroll({entry.name: [s.path for s in entry.supports] for entry in state.classes}) == []
    assert answers(classifier, queries) == before
    assert classifier.state == state
    assert (classifier.threshold_override, classifier.false_rejections) == (None, 0.05)


def test_a_head_is_used_only_for_its_classes(extractor: Extractor, enrolled: Enrolled) -> None:
    _, state, *_ = enrolled
    head = HeadParameters(0.5, 0.25, 3.0)
    state = replace(state, head=as_project_head(head, state, extractor))
    assert head_of(state, extractor) == head
    searched = replace(state, search="one")
    assert head_of(replace(searched, head=as_project_head(head, searched, extractor)), extractor) == head
    for other_state in (replace(state, classes=state.classes[:2]), searched):
        assert head_of(other_state, extractor) is None
    moved = replace(searched, head=as_project_head(head, searched, extractor), whole_photos="others")
    assert head_of(moved, extractor) is None
    for field in ("sha256", "prior"):
        other: Any = SimpleNamespace(sha256=extractor.sha256, prior=extractor.prior)
        setattr(other, field, "another")
        assert head_of(state, other) is None


@pytest.mark.parametrize(
    ("name", "value", "alike"),
    [("alpha", 0.51, True), ("alpha", 0.53, False), ("gamma", 3.05, True), ("gamma", 3.1, False)],
)
def test_heads_within_two_percent_are_alike(name: str, value: float, alike: bool) -> None:
    head = HeadParameters(0.5, 0.25, 3.0)
    assert are_alike(head, replace(head, **{name: value})) == alike


def test_the_head_of_a_project_decides_its_own_answers_only(extractor: Extractor, enrolled: Enrolled) -> None:
    store, state, queries, before = enrolled
    assert state.head
    head = replace(state.head.head, alpha=20.0)  # the other numbers stay
    foreign = replace(state, head=as_project_head(head, state, extractor))
    for _ in range(2):  # from an empty cache, and from a warm one
        by_project, by_folder = (Classifier(extractor, FeatureStore(store)) for _ in range(2))
        (note,) = by_project.enroll_state(foreign)
        assert str(note).startswith("lambda and gamma come from the project")
        assert by_project.head == head
        assert answers(by_project, queries) != before
        assert by_folder.enroll({entry.name: [s.path for s in entry.supports] for entry in state.classes}) == []
        assert answers(by_folder, queries) == before
    same = Classifier(extractor, FeatureStore(store))
    assert same.enroll_state(by_folder.state) == []  # its head is the one that was chosen here
    assert answers(same, queries) == before


@pytest.mark.parametrize("wrong", [{"alpha": np.nan}, {"beta": 51.0}, {"gamma": 0.0}, {"gamma": 1e308}])
def test_a_stored_head_out_of_range_is_absent(
    extractor: Extractor, enrolled: Enrolled, wrong: dict[str, float]
) -> None:
    store, state, queries, before = enrolled
    keep(FeatureStore(store), extractor, classes_key(state, extractor), HeadParameters(**wrong))
    classifier = Classifier(extractor, FeatureStore(store))
    assert classifier.enroll_state(state) == []
    assert answers(classifier, queries) == before


def test_a_form_that_is_not_whole_is_absent(extractor: Extractor, enrolled: Enrolled) -> None:
    store, state, *_ = enrolled
    classifier = Classifier(extractor, FeatureStore(store))
    classifier.enroll_state(state)
    key = form_key(state, extractor, classifier.head)
    data = FeatureStore(store).get_bytes(extractor.sha256, key)
    assert data
    form = from_bytes(data, key, EnrolledForm)
    assert form
    assert describes(form, state, extractor)
    assert from_bytes(data, "another key", EnrolledForm) is None
    assert from_bytes(to_bytes(HeadParameters(), key), key, EnrolledForm) is None
    generator = np.random.default_rng(0)
    for _ in range(400):
        assert from_bytes(mutate([data], generator), key, EnrolledForm) in (None, form)
    (name, enrolled_class), d = next(iter(form.classes.items())), extractor.shape[1]  # it has fewer locations than d
    photo, large = next(iter(form.own_errors)), state.classes[-1].name
    results = form.left_out or pytest.fail("no leave-one-out")
    wrong: dict[str, list[Any]] = {
        "classes": [
            {},
            *(
                {**form.classes, name: replace(enrolled_class, **{field: value})}
                for field in ("rows", "signs", "centre")
                for good in [getattr(enrolled_class, field)]
                for value in (good[:-1], np.full_like(good, np.nan), np.full_like(good, np.inf), good.astype(float))
            ),
            {**form.classes, name: replace(enrolled_class, signs=enrolled_class.signs * np.float32(2))},
            *(
                {**form.classes, name: replace(enrolled_class, allowance=allowance)}
                for bad in (-0.1, np.inf, np.nan)
                for allowance in (Allowance(bad, 0.5), Allowance(0.1, bad))
            ),
            {**form.classes, name: replace(enrolled_class, rows=np.ones((d, d), np.float32), signs=np.ones(d, "f"))},
            {
                **form.classes,
                name: replace(enrolled_class, signs=enrolled_class.signs[:0], rows=enrolled_class.rows[:0]),
            },
        ],
        "leave_one_out": [{}, {**form.leave_one_out, large: form.leave_one_out[large] + 1}],
        "own_errors": [{}, {**form.own_errors, photo: (name, form.own_errors[photo][1][1:])}],
        "smaller": [{"x": (0.5, 0.5)}],
        "looks": [form.looks | {photo: b""}, {"x": bytes(20)}],
        "left_out": [
            None,
            results._replace(errors=results.errors[1:]),
            results._replace(labels=np.full_like(results.labels, -1)),
            results._replace(labels=np.full_like(results.labels, len(form.classes))),
            results._replace(labels=results.labels.astype(np.float64)),
            results._replace(energies=-1 - results.energies),
            results._replace(distances=results.distances * np.nan),
            results._replace(smaller=results.smaller * np.nan),
        ],
    }
    right: list[dict[str, Any]] = [
        {"classes": {**form.classes, name: replace(enrolled_class, rows=np.ones((1, d), "f"), signs=np.ones(1, "f"))}},
        {"left_out": results._replace(labels=results.labels * 0, energies=results.energies * 0)},
        {"looks": {}},
    ]
    assert all(describes(replace(form, **fields), state, extractor) for fields in right)
    for field, values in wrong.items():
        for value in values:
            assert not describes(replace(form, **{field: value}), state, extractor), (field, value)


def test_of_many_examples_of_larger_classes_up_to_128_are_scored_as_the_smallest(extractor: Extractor) -> None:
    draws = np.random.default_rng(0)
    keys = [f"{place:03}" for place in range(130)]
    supports = [Support(Path(key), key, 1, 1) for key in keys]
    state = State((ClassEntry(1, "small", tuple(supports[:1])), ClassEntry(2, "large", tuple(supports[1:]))))
    maps = {key: draws.random(extractor.shape, np.float32) for key in keys}
    assert [*Enrollment(extractor).enroll(state, maps).smaller] == keys[1::2]


@pytest.mark.parametrize(("most", "chosen"), [(128, "bcdef"), (5, "bcdef"), (4, "bdf"), (2, "be")])
def test_an_even_selection_of_larger_classes_is_scored_as_the_smallest(
    extractor: Extractor, monkeypatch: pytest.MonkeyPatch, most: int, chosen: str
) -> None:
    monkeypatch.setattr("frn.inference.enrollment.MAX_SMALLER", most)
    draws = np.random.default_rng(0)
    maps = {key: draws.random(extractor.shape, np.float32) for key in "abcdef"}
    larger, equal = (
        State(tuple(ClassEntry(n, k, tuple(Support(Path(key), key, 1, 1) for key in k)) for n, k in enumerate(keys)))
        for keys in (("a", "bc", "def"), ("ab", "cd"))
    )
    assert [*Enrollment(extractor).enroll(larger, maps).smaller] == [*chosen]
    assert Enrollment(extractor).enroll(equal, maps).smaller == {}


def test_missing_photos_are_not_used_whatever_is_stored(extractor: Extractor, moths: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(moths / "test", tmp_path / "birds"))
    classes = {each.name: sorted(each.iterdir())[:4] for each in sorted(home.iterdir())[:3]}
    query, store = [moths / "val" / "moth 20" / "00.png"], tmp_path / "features.sqlite"
    first = Classifier(extractor, FeatureStore(store))
    assert first.enroll(classes) == []
    for path in classes["moth 40"][:2]:
        path.unlink()
    left = {name: [path for path in paths if path.exists()] for name, paths in classes.items()}
    expected = Classifier(extractor)
    expected.enroll(left)
    for cache in (store, tmp_path / "empty.sqlite"):
        for is_project in (True, False):
            classifier = Classifier(extractor, FeatureStore(cache))
            (note,) = classifier.enroll_state(first.state) if is_project else classifier.enroll(classes)
            assert str(note).startswith("class 'moth 40': 2 of 4 photos are missing and not used. The first: ")
            assert answers(classifier, query) == answers(expected, query)
    shutil.rmtree(home / "moth 40")
    *_, note = Classifier(extractor, FeatureStore(store)).enroll_state(first.state)
    assert str(note).startswith("class 'moth 40': 4 of 4 photos are missing and not used")
    shutil.rmtree(home)
    with pytest.raises(FrnError, match=r"^all 12 example photos are missing\. The first: .*00\.png\. Connect"):
        Classifier(extractor, FeatureStore(store)).enroll_state(first.state)
