"""Answers, chunk by chunk."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frn_tui.engine.classes import class_ranks
from frn_tui.engine.classes.class_ranks import ClassErrors
from frn_tui.engine.classes.enrolled_classes import EnrolledClasses

from frn.features.feature_cache import Maps
from frn.inference.explanation import contributions
from frn.projects.session import ClassEntry, Support
from frn.ridge.enrolment import EnrolledClass, enroll
from frn.ridge.parameters import HeadParameters


@pytest.mark.parametrize("d", [5, 50])  # more and fewer locations than channels
def test_nearest_example_has_the_largest_share_and_is_not_the_photo_itself(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.default_rng(0)
    maps = {key: draws.random((4, d), np.float32) for key in "abcx"}
    models: Any = SimpleNamespace(known=maps.__getitem__)
    classes, current = EnrolledClasses(models), SimpleNamespace(other=None, head=HeadParameters())
    monkeypatch.setattr(EnrolledClasses, "current", current)
    for query in ("x", "a", "x"):
        photos = [key for key in "abc" if key != query]
        pool = np.stack([maps[key] for key in photos])
        shares = contributions(maps[query].astype(np.float64), pool, HeadParameters())[0].sum((0, 2))
        assert classes.nearest(entry(7, "a", "b", "c"), query, maps[query]) == photos[int(shares.argmax())]
    assert classes.nearest(entry(8, "c"), "c", maps["c"]) == ""


def test_only_the_frn_head_explains_an_example_by_the_others_of_a_class_that_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("frn_tui.engine.classes.enrolled_classes.MAX_LEFT_OUT", 2)
    maps = {key: np.eye(4, 5, dtype=np.float32) for key in "abcdx"}
    models: Any = SimpleNamespace(known=maps.__getitem__)
    classes, current = EnrolledClasses(models), SimpleNamespace(other=None, head=HeadParameters())
    monkeypatch.setattr(EnrolledClasses, "current", current)
    cases = [("abc", "a", True), ("abcd", "a", False), ("abcd", "x", True)]
    for keys, query, is_explained in cases:
        assert bool(classes.nearest(entry(7, *keys), query, maps[query])) == is_explained
    current.other = object()
    assert not any(classes.nearest(entry(7, *keys), query, maps[query]) for keys, query, _ in cases)


def entry(number: int, *keys: str) -> ClassEntry:
    return ClassEntry(number, str(number), tuple(Support(Path(key), key, 1, 1) for key in keys))


R, D = 3, 8
GROUPS = [("a", "b"), ("c",), ("d", "e")]
MAPS: Mapping[str, Maps] = {
    key: np.random.default_rng(number).normal(size=(R, D)).astype(np.float32) for number, key in enumerate("abcde")
}


def nothing() -> None:
    """Check for cancellation."""


def enrolled(beta: float = 1.0) -> list[EnrolledClass]:
    """With rho above 2, some rows count negatively."""
    return [enroll(np.stack([MAPS[key] for key in group]), HeadParameters(0.5, beta, 1.0)) for group in GROUPS]


def test_one_new_photo_is_compared_with_the_classes_that_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, classes, checks = ClassErrors(), enrolled(), []
    monkeypatch.setattr(class_ranks, "BLOCK", 0)  # one photo and one class at a time
    errors.errors(GROUPS[:1], classes[:1], MAPS, lambda: checks.append(1))
    assert len(checks) == 2
    found = errors.errors(GROUPS[:2], classes[:2], MAPS, lambda: checks.append(1))
    assert len(checks) == 6
    np.testing.assert_array_equal(found, ClassErrors().errors(GROUPS[:2], classes[:2], MAPS, nothing))
