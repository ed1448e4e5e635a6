"""Which errors are computed, in which order, and which are known already."""

from collections.abc import Mapping

import numpy as np
import pytest
from frn_tui.engine.classes import class_ranks
from frn_tui.engine.classes.class_ranks import ClassErrors

from frn.features.feature_cache import Maps
from frn.ridge.enrolment import ClassScorer, EnrolledClass, enroll
from frn.ridge.parameters import HeadParameters

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


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_errors_equal_those_of_the_scorer(beta: float) -> None:
    found = ClassErrors().errors(GROUPS, enrolled(beta), MAPS, nothing)
    expected = ClassScorer(enrolled(beta)).class_error(np.stack(list(MAPS.values())))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_known_pairs_are_not_computed_again() -> None:
    """The maps of known photos are replaced, which shows only in new pairs."""
    classes, errors = enrolled(), ClassErrors()
    before = errors.errors(GROUPS[:2], classes[:2], MAPS, nothing)
    assert before.shape == (3, 2)
    assert np.array_equal(errors.errors(GROUPS[:2], classes[:2], MAPS, lambda: pytest.fail("computed")), before)
    zero = {key: np.zeros((R, D), np.float32) for key in MAPS}
    after = errors.errors(GROUPS[::-1], classes[::-1], zero, nothing)  # rows d e c a b, columns 2 1 0
    assert np.array_equal(after[2:, 1:], before[[2, 0, 1]][:, [1, 0]])
    assert not after[:2].any()
    assert not after[:, 0].any()


def test_one_new_photo_is_compared_with_the_classes_that_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, classes, checks = ClassErrors(), enrolled(), []
    monkeypatch.setattr(class_ranks, "BLOCK", 0)  # one photo and one class at a time
    errors.errors(GROUPS[:1], classes[:1], MAPS, lambda: checks.append(1))
    assert len(checks) == 2
    found = errors.errors(GROUPS[:2], classes[:2], MAPS, lambda: checks.append(1))
    assert len(checks) == 6
    np.testing.assert_array_equal(found, ClassErrors().errors(GROUPS[:2], classes[:2], MAPS, nothing))
