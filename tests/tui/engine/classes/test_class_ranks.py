"""Which errors are computed, in which order, and which are known already."""

from collections.abc import Mapping

import numpy as np
import pytest
from frn_tui.engine.classes import class_ranks
from frn_tui.engine.classes.class_ranks import ClassErrors

from frn.features.feature_cache import Maps
from frn.ridge.enrolment import EnrolledClass, enroll
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


def test_one_new_photo_is_compared_with_the_classes_that_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, classes, checks = ClassErrors(), enrolled(), []
    monkeypatch.setattr(class_ranks, "BLOCK", 0)  # one photo and one class at a time
    errors.errors(GROUPS[:1], classes[:1], MAPS, lambda: checks.append(1))
    assert len(checks) == 2
    found = errors.errors(GROUPS[:2], classes[:2], MAPS, lambda: checks.append(1))
    assert len(checks) == 6
    np.testing.assert_array_equal(found, ClassErrors().errors(GROUPS[:2], classes[:2], MAPS, nothing))
