"""Allowances of classes with different numbers of photos."""

import numpy as np
import pytest
from numpy.typing import NDArray

from frn.ridge.enrolment import Allowance, ClassScorer, EnrolledClass, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import Prior, TuningEpisode, tune, tune_by_leave_one_out
from frn.ridge.unequal import allowances, as_smallest, by_content, enroll_all, slope, without_one

HEAD, R, D = HeadParameters(1.0), 9, 64


def photos(label: int, count: int, seed: int, noise: float = 1) -> NDArray[np.float32]:
    """Maps (count, r, d) of a class: few directions of its own, and noise."""
    basis = np.random.default_rng(label).standard_normal((6, D))
    draws = np.random.default_rng((label, seed))
    maps = draws.standard_normal((count, R, 6)) @ basis * 0.5 + noise * draws.standard_normal((count, R, D))
    return maps.astype(np.float32)


def map_enroll(pools: list[NDArray[np.float32]]) -> list[EnrolledClass]:
    return [enroll(pool, HEAD) for pool in pools]


def test_equal_classes_have_no_allowance_and_the_same_errors() -> None:
    pools, queries = [photos(label, 3, 0) for label in range(4)], photos(0, 5, 1)
    assert allowances(pools, HEAD) == [Allowance()] * 4
    plain = ClassScorer([enroll(pool, HEAD) for pool in pools]).class_error(queries)
    np.testing.assert_array_equal(ClassScorer(enroll_all(pools, HEAD)).class_error(queries), plain)


def test_allowances_grow_with_the_logarithm_of_the_number_of_photos() -> None:
    counts = [1, 2, 4, 8]
    more = allowances([photos(label, count, 0) for label, count in enumerate(counts)], HEAD)
    shares, usual = zip(*more, strict=True)
    assert shares[0] == 0 < shares[1]
    assert shares[2] == pytest.approx(2 * shares[1])
    assert shares[3] == pytest.approx(3 * shares[1])
    assert slope(more, counts) * np.log(8) == pytest.approx(shares[3])
    assert without_one(more[1], 2, 1).share == 0  # without one of its two photos, it has as few as the smallest class
    assert without_one(more[2], 4, 1) == pytest.approx((slope(more, counts) * np.log(3), usual[0]))


@pytest.mark.parametrize("apart", [True, False])
def test_slope_is_fitted_to_what_more_photos_take_from_other_classes(apart: bool) -> None:
    """Classes that are hardly apart have little excess; 0.15 of their error stands for it."""
    counts = [2, 3, 6]
    pools = [photos(label if apart else 0, count, label, 0.3) for label, count in enumerate(counts)]
    pools = [pool[by_content(pool)] for pool in pools]
    usual = 1.1 * np.mean([(leave_one_out(pool, HEAD) / energy(pool)).mean() for pool in pools[1:]])
    drops, expected = np.zeros(2), np.zeros(2)
    for row, label in enumerate((1, 2)):
        pool, k = pools[label], counts[label]
        pairs = ClassScorer([enroll(pool[[i, (i + 1) % k]], HEAD) for i in range(k)])
        per_class = []
        for other in pools[:label] + pools[label + 1 :]:
            error = ClassScorer([enroll(pool, HEAD)]).class_error(other)[:, 0] / energy(other)
            drop = (pairs.class_error(other).mean(1) / energy(other) - error).mean()
            per_class.append((drop, np.maximum(error - usual, 0).mean(), error.mean()))
        drops[row], excess, error = np.mean(per_class, 0)
        assert (excess > 0.15 * error) == apart
        expected[row] = np.log(k / 2) * max(excess, 0.15 * error)
    per_log = drops @ expected / (expected @ expected)
    more = allowances(pools, HEAD)
    np.testing.assert_allclose([one.share for one in more], per_log * np.log(np.array(counts) / 2), rtol=1e-4)
    assert more[1].usual == pytest.approx(usual)


def test_allowances_do_not_depend_on_the_order_of_the_photos() -> None:
    pools = [photos(label, count, 0) for label, count in enumerate([1, 3, 12])]
    more = allowances([pool[::-1] for pool in pools], HEAD)
    np.testing.assert_allclose(more, allowances(pools, HEAD), rtol=1e-5)


@pytest.mark.parametrize(
    ("count", "least", "others"), [(6, 1, [5]), (6, 2, [5, 0]), (4, 3, [0, 1, 3]), (3, 2, [0, 1]), (2, 1, [1])]
)
def test_support_from_as_few_others_as_the_smallest_class_has(count: int, least: int, others: list[int]) -> None:
    pool, place = photos(0, count, 0), 2 if count > 2 else 0
    pool = pool[by_content(pool)]
    fewer = enroll(pool[others], HEAD)
    error, distance = as_smallest(pool, place, least, HEAD)
    assert error == ClassScorer([fewer]).class_error(pool[place, None])[0, 0]
    assert distance == pytest.approx(np.square(pool[place].mean(0) - pool[others].mean((0, 1))).sum(), rel=1e-5)


def test_small_classes_keep_their_photos() -> None:
    pools = [photos(label, count, 0) for label, count in enumerate([1, 1, 1, 12, 12, 12])]
    queries = np.concatenate([photos(label, 30, 1) for label in range(6)])
    labels = np.repeat(np.arange(6), 30)

    def right(scorer: ClassScorer) -> NDArray[np.floating]:
        answers = scorer.class_error(queries).argmin(1)
        return np.array([(answers == label)[labels == label].mean() for label in range(6)])

    before, after = (
        right(ClassScorer([enroll(pool, HEAD) for pool in pools])),
        right(ClassScorer(enroll_all(pools, HEAD))),
    )
    assert after[:3].mean() > before[:3].mean() + 0.1
    assert after.mean() > before.mean() + 0.05


def test_only_photos_unlike_those_of_a_class_pay_its_allowance() -> None:
    """It is a share of what exceeds the usual error: a tenth more than photos of the larger class have."""
    pools, queries = (
        [photos(0, 1, 0, 0.2), photos(1, 6, 0, 0.2)],
        np.concatenate([photos(2, 4, 1), photos(1, 4, 1, 0.1)]),
    )
    plain, fair = (ClassScorer(each).class_error(queries) for each in (map_enroll(pools), enroll_all(pools, HEAD)))
    share, usual = allowances(pools, HEAD)[1]
    assert usual == pytest.approx(1.1 * (leave_one_out(pools[1], HEAD) / energy(pools[1])).mean())
    excess = np.maximum(plain[:, 1] - usual * energy(queries), 0)
    assert excess[:4].min() > 0 == excess[4:].max()
    np.testing.assert_allclose(fair - plain, np.outer(excess, [0, share]), atol=1e-5)


def test_gamma_is_chosen_for_the_errors_with_allowances() -> None:
    """Leave-one-out errors of the larger classes grow by their allowances, so a smaller gamma is more likely."""
    pools = [photos(label, count, 0) for label, count in enumerate([2, 2, 9, 9])]
    chosen, without = (
        tune_by_leave_one_out(pools, Prior(1.0, 0.0, 0.1)),
        tune([TuningEpisode(pools)], Prior(1.0, 0.0, 0.1), 4.5),
    )
    assert chosen.gamma != pytest.approx(without.gamma * np.sqrt(5.5 / 4.5))
