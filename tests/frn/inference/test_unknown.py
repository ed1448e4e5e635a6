"""The reject rule, by hand counts and on images it cannot know."""

import numpy as np
import pytest

from frn.inference.unknown import calibrate, explained, leave_one_out_explained
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters

HEAD = HeadParameters(0.3, 0.1, 2.0)


def test_explained_is_one_less_the_error_per_energy() -> None:
    queries = np.array([[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])  # energies (25 + 1) / 2 and 0
    errors = np.array([[0.0, 6.5, 13.0, 20.0], [0.0, 1.0, 2.0, 3.0]])
    np.testing.assert_allclose(explained(errors, queries), [[1.0, 0.5, 0.0, 0.0], [0.0] * 4])


def test_it_does_not_depend_on_the_scale_of_the_features_but_errors_do() -> None:
    """With lambda in proportion, doubled features rebuild each other alike."""
    generator = np.random.default_rng(0)
    pool, queries = generator.standard_normal((3, 9, 32)), generator.standard_normal((4, 9, 32))
    grown = HeadParameters(HEAD.alpha + np.log(4), HEAD.beta, HEAD.gamma)
    small = explained(ClassScorer([enroll(pool, HEAD)]).class_error(queries), queries)
    large = explained(ClassScorer([enroll(2 * pool, grown)]).class_error(2 * queries), 2 * queries)
    np.testing.assert_allclose(small, large, atol=1e-5)


def test_leaving_out_is_enrolling_the_others() -> None:
    maps = np.random.default_rng(1).standard_normal((5, 9, 32))
    expected = [
        explained(ClassScorer([enroll(np.delete(maps, i, 0), HEAD)]).class_error(maps[i : i + 1]), maps[i : i + 1])[
            0, 0
        ]
        for i in range(5)
    ]
    np.testing.assert_allclose(leave_one_out_explained(maps, HEAD), expected, atol=1e-5)


def test_all_but_a_twentieth_of_the_supports_reach_the_threshold() -> None:
    shares = np.random.default_rng(2).random(2000)
    threshold = calibrate([shares[:500], shares[500:]])
    assert np.mean(shares < threshold) == pytest.approx(0.05, abs=0.002)


def test_where_every_class_has_one_photo_nothing_is_unknown() -> None:
    assert calibrate([]) == 0.0


def test_a_stranger_is_unknown_and_a_sibling_is_not() -> None:
    generator = np.random.default_rng(3)
    centres = generator.standard_normal((3, 9, 32))

    def draw(centre: np.ndarray, n: int) -> np.ndarray:
        return centre + 0.5 * generator.standard_normal((n, 9, 32))

    supports = [draw(centre, 5) for centre in centres[:2]]
    threshold = calibrate([leave_one_out_explained(maps, HEAD) for maps in supports])
    bank = ClassScorer([enroll(maps, HEAD) for maps in supports])
    siblings, strangers = draw(centres[0], 50), draw(centres[2], 50)
    missed = explained(bank.class_error(siblings), siblings).max(1) < threshold
    caught = explained(bank.class_error(strangers), strangers).max(1) < threshold
    assert missed.mean() <= 0.1
    assert caught.mean() >= 0.9
