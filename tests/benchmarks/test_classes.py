"""Scoring many classes at once gives the same result as scoring them one after the other."""

import numpy as np
from classes import OURS, PLAIN, ClassesCase, class_by_class, time_classes

from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters


def test_scoring_one_class_at_a_time_equals_scoring_all_together() -> None:
    draws = np.random.default_rng(0)
    classes = [enroll(draws.standard_normal((shot, 4, 16)), HeadParameters(beta=1.2)) for shot in (1, 3, 5)]
    queries = draws.standard_normal((6, 4, 16)).astype(np.float32)
    np.testing.assert_allclose(
        class_by_class(classes, queries), ClassScorer(classes).class_error(queries), rtol=1e-4, atol=1e-4
    )


def test_times_and_memory_are_reported() -> None:
    timing = time_classes(ClassesCase(d=32, r=4, shot=8, way=1500, photos=2), rounds=1)
    assert set(timing.milliseconds) == {OURS, PLAIN}
    assert min(timing.milliseconds.values()) > 0
    rows, operators = 1500 * 32 * 32 * 4 / 1e6, 1500 * 32 * 33 / 2 * 4 / 1e6
    assert timing.megabytes == rows
    assert operators < timing.more_megabytes < 2 * operators + 20, "operators, and a few blocks while they are made"
