"""Rejecting unknown photos: values computed by hand, and images of other objects."""

import numpy as np
import pytest

from frn.inference.unknown import (
    NEVER,
    Calibration,
    RejectRule,
    auroc,
    calibrate,
    explained,
    familiarity,
    rivals_error,
    stride,
    without_itself,
)
from frn.ridge.enrolment import ClassScorer, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters

HEAD = HeadParameters(0.3, 0.1, 2.0)


def test_explained_share_is_one_minus_error_over_energy() -> None:
    queries = np.array([[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])  # the energies are (25 + 1) / 2 and 0
    errors = np.array([[0.0, 6.5, 13.0, 20.0], [0.0, 1.0, 2.0, 3.0]])
    np.testing.assert_allclose(explained(errors, energy(queries)), [[1.0, 0.5, 0.0, 0.0], [0.0] * 4])


def test_familiarity_is_one_minus_error_over_energy_and_the_five_runner_up_classes() -> None:
    errors, whole = np.array([[9.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 90.0]]), np.array([16.0])
    rivals, near = (4 * 5) / 5, np.array([[7.0, 0.25, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]])
    one = np.ones_like(errors)
    assert familiarity(errors[:, 1:], whole, one[:, 1:])[0] == pytest.approx(1 - 2 / (16 * rivals) ** 0.5)
    assert familiarity(errors[:, 1:], whole, near[:, 1:])[0] == pytest.approx(1 - 2 / (16 * rivals / 0.25) ** 0.5)
    assert familiarity(errors, whole, near, 0.0)[0] == pytest.approx(1 - 2 / 16)
    assert familiarity(errors[:, 1:], whole, near[:, 1:], 1.0)[0] == pytest.approx(1 - 2 * 0.25 / rivals)
    assert familiarity(errors[:, 1:3], whole, one[:, :2])[0] == pytest.approx(1 - 2 / (16 * 4) ** 0.5)
    assert familiarity(errors[:, 1:2], whole, one[:, :1])[0] == pytest.approx(1 - 2 / 16)  # one class has no rivals
    assert familiarity(np.zeros((1, 3)), np.zeros(1), np.ones((1, 3)))[0] == 0


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_a_threshold_on_the_explained_share_also_limits_familiarity(weight: float) -> None:
    generator = np.random.default_rng(0)
    whole = generator.uniform(1, 2, 200)
    errors = generator.uniform(0.1, 1, (200, 7)) * whole[:, None]
    distances = generator.uniform(0.5, 1.5, (200, 7))
    unknown = familiarity(errors, whole, distances, weight) < 0.6
    below = 1 - errors.min(1) / whole < RejectRule(0.6, weight).thresholds(errors, whole, distances)
    assert 5 < unknown.sum() < 195
    assert (unknown == below).all()


def test_given_threshold_is_the_same_for_every_photo() -> None:
    errors = np.random.default_rng(0).uniform(0.1, 1, (5, 7))
    np.testing.assert_allclose(RejectRule(0.4).thresholds(errors, np.ones(5), errors), 0.4)
    np.testing.assert_allclose(NEVER.thresholds(errors, np.ones(5), errors), 0)


def test_explained_share_does_not_depend_on_the_scale_of_features() -> None:
    """If features and the square root of lambda are doubled, reconstruction is equally good."""
    generator = np.random.default_rng(0)
    pool, queries = generator.standard_normal((3, 9, 32)), generator.standard_normal((4, 9, 32))
    grown = HeadParameters(HEAD.alpha + np.log(4), HEAD.beta, HEAD.gamma)
    small = explained(ClassScorer([enroll(pool, HEAD)]).class_error(queries), energy(queries))
    large = explained(ClassScorer([enroll(2 * pool, grown)]).class_error(2 * queries), energy(2 * queries))
    np.testing.assert_allclose(small, large, atol=1e-5)


def examples(noise: float, way: int = 4, k: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return errors, classes, energies and distances in the form that `calibrate` takes."""
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(way), k)
    errors = np.ones((way * k, way)) + 0.1 * generator.standard_normal((way * k, way))
    errors[np.arange(way * k), labels] -= noise
    return errors, labels, np.full(way * k, 2.0), np.ones(errors.shape)


@pytest.mark.parametrize("stated", [0.05, 0.2])
def test_the_requested_share_of_examples_is_rejected(stated: float) -> None:
    errors, labels, whole, distances = examples(0.5)
    found = calibrate(errors, labels, whole, distances, stated)
    rejected = 1 - errors.min(1) / whole < found.rule.thresholds(errors, whole, distances)
    assert rejected.mean() == pytest.approx(stated, abs=0.01)


def test_expected_rates_are_reported_even_if_nothing_is_separable() -> None:
    clear, hopeless = calibrate(*examples(0.6)), calibrate(*examples(0.0, way=20))
    assert clear.caught > 0.9
    assert clear.auroc > 0.95
    assert "rejects about 5% of your photos and" in clear.describe()
    assert hopeless.caught < 0.1
    assert "can hardly be distinguished" in hopeless.describe()


def test_nothing_is_unknown_if_every_class_has_one_photo() -> None:
    found = calibrate(np.zeros((0, 3)), np.zeros(0, dtype=int), np.zeros(0), np.zeros((0, 3)))
    assert found.rule == NEVER
    assert np.isnan(found.caught)
    assert "cannot be detected" in found.describe()


def test_photo_of_another_class_is_unknown_but_a_similar_one_is_not() -> None:
    generator = np.random.default_rng(3)
    centres = generator.standard_normal((4, 9, 32))

    def draw(centre: np.ndarray, n: int) -> np.ndarray:
        return centre + 0.5 * generator.standard_normal((n, 9, 32))

    supports = np.stack([draw(centre, 5) for centre in centres[:3]])
    bank = ClassScorer([enroll(maps, HEAD) for maps in supports])
    labels, photos = np.repeat(np.arange(3), 5), supports.reshape(15, 9, 32)
    errors = bank.class_error(photos).astype(float)
    errors[np.arange(15), labels] = np.concatenate([leave_one_out(maps, HEAD) for maps in supports])
    distances = without_itself(bank.centres.distance(photos), labels, np.full(3, 5))
    rule = calibrate(errors, labels, energy(photos), distances).rule

    def unknown(asked: np.ndarray) -> float:
        found = bank.class_error(asked)
        limits = rule.thresholds(found, energy(asked), bank.centres.distance(asked))
        return float((explained(found, energy(asked)).max(1) < limits).mean())

    assert unknown(draw(centres[0], 50)) <= 0.1
    assert unknown(draw(centres[3], 50)) >= 0.9


def test_distance_of_a_support_to_its_class_excludes_the_support() -> None:
    maps = np.random.default_rng(0).standard_normal((2, 4, 3, 8)).astype(np.float32)
    counts, labels = np.array([4, 1]), np.array([0, 0, 1])
    photos = np.stack([maps[0, 0], maps[0, 3], maps[1, 0]])
    found = ClassScorer([enroll(maps[0], HEAD), enroll(maps[1, :1], HEAD)]).centres
    distances = without_itself(found.distance(photos), labels, counts)
    for row, place in ((0, 0), (1, 3)):
        rest = np.delete(maps[0], place, axis=0).mean((0, 1))
        expected = np.square(photos[row].mean(0) - rest).sum() / found.scale
        assert distances[row, 0] == pytest.approx(expected, rel=1e-5)
    assert distances[2, 1] == np.inf  # its class has no other examples
    np.testing.assert_array_equal(distances[[0, 1, 2], [1, 1, 0]], found.distance(photos)[[0, 1, 2], [1, 1, 0]])


def test_a_photo_equal_to_a_class_is_a_millionth_of_the_usual_distance_away() -> None:
    errors = np.array([[1e-4, 1.0]])
    equal, near = (familiarity(errors, np.ones(1), np.full((1, 2), distance)) for distance in (0.0, 1e-6))
    assert equal == near
    assert 1 - equal == pytest.approx(1e-7, rel=1e-3)


def test_leave_one_out_uses_at_most_a_thousand_supports() -> None:
    assert [stride(count) for count in (0, 1, 1000, 1001, 2000, 2001)] == [1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize(("caught", "can"), [(0.09, False), (0.1, True)])
def test_rule_must_catch_twice_its_false_rejections(caught: float, can: bool) -> None:
    known, limit = np.linspace(0, 1, 21), 0.05
    strangers = np.where(np.arange(100) < 100 * caught, limit / 2, limit)
    found = Calibration(known, strangers, 0.0)
    assert found.caught == caught
    assert ("can hardly be distinguished" not in found.describe()) == can


def test_auroc_counts_ties_as_half() -> None:
    assert auroc(np.array([1.0, 2.0]), np.array([1.0])) == 0.75


def test_many_photos_marked_as_no_class_raise_the_limit() -> None:
    known = np.linspace(0.2, 1.0, 41)
    stated = Calibration(known, np.zeros(0), 0.0).rule.least
    few = Calibration(known, np.zeros(0), 0.0, others=np.array([0.6])).rule.least
    many = Calibration(known, np.zeros(0), 0.0, others=np.full(30, 0.3)).rule.least
    assert few == stated  # a single photo has less weight than twenty
    assert many > 0.3
    assert (known < many).sum() < 30


def test_a_photo_exactly_at_the_limit_is_known() -> None:
    known = np.array([0.3, 0.5, 0.7])
    assert Calibration(known, np.zeros(0), 0.0, 0.0, np.array([0.3])).rule.least == 0.3
    assert Calibration(known, np.zeros(0), 0.0, 0.0, np.array([0.3, 0.3])).rule.least == np.nextafter(0.3, 1)
    assert Calibration(known, np.array([0.3, 0.2]), 0.0, 0.0).caught == 0.5


def test_expected_rates_are_described_in_one_line() -> None:
    known, strangers = np.linspace(0, 1, 21), np.where(np.arange(100) < 40, 0.01, 0.5)
    clear, poor = Calibration(known, strangers), Calibration(known, np.full(100, 0.5), false_rejections=0.2)
    assert clear.describe() == "rejects about 5% of your photos and 40% of other photos (AUROC 0.68)"
    assert poor.describe() == (
        "unknown photos can hardly be distinguished from these classes: rejecting 20% of your photos catches 0% of "
        "other photos (AUROC 0.50)"
    )
    assert Calibration(np.zeros(0), np.zeros(0)).describe() == (
        "unknown photos cannot be detected: this needs a class with two photos"
    )
    alone = Calibration(known, np.zeros(0)).describe()
    assert alone == "rejects about 5% of your photos; with one class, other rates are unknown"
    assert np.isnan(Calibration(known, np.zeros(0)).auroc)


def test_calibration_by_hand() -> None:
    """Five supports of two classes, whose energy is 4; their distances are 1 to the own class and 4 to the other."""
    errors = np.array([[0.0, 1.0], [0.25, 1.0], [1.0, 0.04], [4.0, 0.64], [1.0, 0.81]])
    labels, whole = np.array([0, 0, 1, 1, 1]), np.full(5, 4.0)
    distances = np.where(labels[:, None] == np.arange(2), 1.0, 4.0)
    found = calibrate(errors, labels, whole, distances, 0.25, np.array([0.1, 0.7]))
    known = 1 - np.array([0, 0.25 / 2, 0.04 / 2, 0.64 / 4, 0.81 / 2])  # the root of 4 times the rival's error
    strangers = 1 - np.array([1, 1, 1, 4, 1]) / 2  # with one class left, its rival is the energy, at distance 4
    np.testing.assert_allclose(found.known, known)
    np.testing.assert_allclose(found.strangers, strangers)
    assert found.rule.weight == 0.5
    assert found.rule.least == pytest.approx(1 - 0.16)  # the lowest quarter of `known`
    assert found.caught == 1.0
    assert found.typical == pytest.approx(np.median(1 - 0.16 * np.sqrt([1 / 4, 1 / 4, 1 / 4, 1, 1 / 4])))
    assert (found.false_rejections, found.others.tolist()) == (0.25, [0.1, 0.7])
    empty = calibrate(errors[:0], labels[:0], whole[:0], distances[:0], 0.25)
    assert (empty.typical, empty.false_rejections, empty.rule) == (0.0, 0.25, NEVER)


def test_a_single_class_has_no_strangers() -> None:
    found = calibrate(np.array([[1.0], [2.0]]), np.array([0, 0]), np.full(2, 4.0), np.ones((2, 1)))
    assert (len(found.strangers), found.false_rejections, len(found.others)) == (0, 0.05, 0)
    np.testing.assert_allclose(found.known, [1 - 1 / 4, 1 - 2 / 4])


@pytest.mark.parametrize(("count", "factor"), [(1, np.inf), (2, 4.0), (3, 2.25), (5, 1.5625)])
def test_distance_to_the_other_examples_of_a_class(count: int, factor: float) -> None:
    distances = np.array([[2.0, 3.0], [2.0, 3.0]])
    found = without_itself(distances, [None, 1], [7, count])
    np.testing.assert_array_equal(found, [[2, 3], [2, 3 * factor]])
    assert distances[1, 1] == 3


def test_thresholds_of_photos_without_energy_or_rivals() -> None:
    errors, whole = np.array([[1.0, 4.0], [0.0, 0.0], [8.0, 9.0]]), np.array([4.0, 0.0, 4.0])
    rule = RejectRule(0.6, 0.5)
    needed = rule.thresholds(errors, whole, np.ones((3, 2)))
    np.testing.assert_allclose(needed, [0.6, 0.6, 1 - 0.4 * 1.5])
    assert rule.thresholds(np.full((1, 2), 9e9), np.ones(1), np.ones((1, 2))).tolist() == [0]  # never negative


@pytest.mark.parametrize(
    ("known", "unknown", "share"),
    [([2.0], [1.0], 1.0), ([1.0], [2.0], 0.0), ([1, 3], [1, 2, 3], 0.5), ([1, 2, 3], [0, 1], 5.5 / 6)],
)
def test_auroc_counts_pairs(known: list[float], unknown: list[float], share: float) -> None:
    assert auroc(known, unknown) == pytest.approx(share)


def test_rivals_are_the_five_classes_after_the_best() -> None:
    errors = np.random.default_rng(0).uniform(0.1, 1, (200, 300))
    expected = np.sort(errors, axis=1)[:, 1:6].mean(1)
    np.testing.assert_allclose(rivals_error(errors, np.ones(200), np.ones((200, 300))), expected)
    np.testing.assert_allclose(
        rivals_error(errors[:, :3], np.ones(200), np.full((200, 3), 0.5)), 2 * np.sort(errors[:, :3])[:, 1:].mean(1)
    )


def test_photos_of_little_energy_are_explained_like_others() -> None:
    shares = explained(np.array([[0.125, 0.25], [0.5, 0.75]]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(shares, np.array([[0.75, 0.5], [0.0, 0.0]]))
    one = np.ones((1, 2))
    assert familiarity(np.array([[0.1, 0.4]]), np.array([0.4]), one)[0] == pytest.approx(0.75)
    needed = RejectRule(0.6, 1.0).thresholds(np.array([[0.1, 0.2]]), np.array([0.4]), one)
    assert needed == pytest.approx([0.8])
    assert len(Calibration(np.ones(2), np.zeros(0)).others) == 0


def test_the_stated_rate_includes_known_photos_that_are_rejected_because_of_others() -> None:
    known = np.linspace(0.1, 1, 10)
    found = Calibration(known, np.zeros(3), false_rejections=0.1, others=np.full(30, 0.35))
    assert found.rejected == pytest.approx((known < found.rule.least).mean())
    assert found.rejected > 0.1
    assert f"{found.rejected:.0%} of your photos" in found.describe()
    assert Calibration(known, np.zeros(3), false_rejections=0.1).rejected == 0.1
