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


@pytest.mark.parametrize(("limit", "unknown"), [(5 * D * D * (R + 3), 0), (5 * D * D * (R + 3) - 1, 15)])
def test_work_up_to_the_limit_is_done_at_once(monkeypatch: pytest.MonkeyPatch, limit: int, unknown: int) -> None:
    monkeypatch.setattr(class_ranks, "MAX_OPERATIONS", limit)
    assert np.isnan(ClassErrors().errors(GROUPS, enrolled(), MAPS, nothing)).sum() == unknown


def test_work_beyond_six_billion_multiplications_is_postponed() -> None:
    """Sixteen photos of 500 locations with 1,000 channels take eight billion."""
    d = 1000
    maps = {str(number): np.broadcast_to(np.float32(1), (500, d)) for number in range(16)}
    one = EnrolledClass(np.ones((1, d), np.float32), np.ones(1, np.float32), np.zeros(d, np.float32))
    found = ClassErrors().errors([tuple(maps)], [one], maps, lambda: pytest.fail("computed"))
    assert np.isnan(found).all()


def test_columns_with_most_missing_errors_come_before_others_but_after_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors, classes = ClassErrors(), enrolled()
    monkeypatch.setattr(class_ranks, "BLOCK", 0)  # one photo and one class at a time
    errors._rows, errors._columns = {"a": 0, "b": 1, "c": 2}, {GROUPS[0]: 0, GROUPS[1]: 1}
    errors._errors = np.array([[1, np.nan], [2, np.nan], [3, 4]], np.float32)  # class 0 lacks two photos, class 1 four
    weighed: list[int] = []
    weigh = class_ranks._weigh

    def seen(one: EnrolledClass) -> np.ndarray:
        weighed.append(next(place for place, each in enumerate(classes) if each is one))
        return weigh(one)

    monkeypatch.setattr(class_ranks, "_weigh", seen)
    assert not np.isnan(errors.errors(GROUPS, classes, MAPS, nothing)).any()
    assert weighed == [2, 1, 0]
