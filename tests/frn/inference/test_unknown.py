"""Rejecting unknown photos: values computed by hand, and images of other objects."""

from dataclasses import replace

import numpy as np
import pytest

from frn.inference.unknown.calibration import Calibration, calibrate, fit, low_quantile, stride
from frn.inference.unknown.rule import NEVER, Measures, auroc, explained, terms, without_itself
from frn.ridge.enrolment import ClassScorer, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters

HEAD = HeadParameters(0.3, 0.1, 2.0)


def test_explained_share_is_one_minus_error_over_energy() -> None:
    queries = np.array([[[3.0, 4.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    errors = np.array([[0.0, 6.5, 13.0, 20.0], [0.0, 0.125, 0.25, 0.5], [0.0, 1.0, 2.0, 3.0]])
    shares = explained(errors, energy(queries))  # the energies are (25 + 1) / 2, 1 / 4 and 0
    np.testing.assert_allclose(shares, [[1.0, 0.5, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0], [0.0] * 4])


def test_explained_share_does_not_depend_on_the_scale_of_features() -> None:
    """If features and the square root of lambda are doubled, reconstruction is equally good."""
    generator = np.random.default_rng(0)
    pool, queries = generator.standard_normal((3, 9, 32)), generator.standard_normal((4, 9, 32))
    grown = HeadParameters(HEAD.alpha + np.log(4), HEAD.beta, HEAD.gamma)
    small = explained(ClassScorer([enroll(pool, HEAD)]).class_error(queries), energy(queries))
    large = explained(ClassScorer([enroll(2 * pool, grown)]).class_error(2 * queries), energy(2 * queries))
    np.testing.assert_allclose(small, large, atol=1e-5)


def examples(noise: float, way: int = 4, k: int = 30) -> tuple[Measures, np.ndarray]:
    """Return measures and classes."""
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(way), k)
    errors = np.ones((way * k, way)) + 0.1 * generator.standard_normal((way * k, way))
    errors[np.arange(way * k), labels] -= noise
    return (errors, np.full(way * k, 2.0), np.ones(errors.shape)), labels


@pytest.mark.parametrize("stated", [0.05, 0.2])
def test_the_requested_share_of_examples_is_rejected(stated: float) -> None:
    measures, labels = examples(0.5)
    rule = calibrate(measures, labels, HEAD.gamma, stated).rule
    assert (rule.known(measures) < rule.threshold).mean() == pytest.approx(stated, abs=0.01)


def test_expected_rates_are_reported_even_if_nothing_is_separable() -> None:
    clear, hopeless = (calibrate(*examples(*each), HEAD.gamma) for each in ((0.6,), (0.0, 20)))
    assert clear.caught > 0.9
    assert clear.auroc > 0.95
    assert "rejects about 5% of your photos and" in clear.describe()
    assert hopeless.caught < 0.1
    assert "can hardly be distinguished" in hopeless.describe()


def test_nothing_is_unknown_if_every_class_has_one_photo() -> None:
    found = calibrate((np.zeros((0, 3)), np.zeros(0), np.zeros((0, 3))), np.zeros(0, dtype=int), HEAD.gamma)
    assert found.rule == NEVER
    assert found.rule.threshold == 0
    assert np.isnan(found.rule.known(examples(0.5)[0])).all()
    assert np.isnan(found.caught)
    assert "this needs a class with two photos" in found.describe()


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
    rule = calibrate((errors, energy(photos), distances), labels, HEAD.gamma).rule

    def unknown(asked: np.ndarray) -> float:
        known = rule.known((bank.class_error(asked).astype(float), energy(asked), bank.centres.distance(asked)))
        return float((known < rule.threshold).mean())

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


@pytest.mark.parametrize(("caught", "can"), [(0.09, False), (0.1, True)])
def test_rule_must_catch_twice_its_false_rejections(caught: float, can: bool) -> None:
    known = np.linspace(0, 1, 21)
    strangers = np.where(np.arange(100) < 100 * caught, 0.001, 0.05)
    found = Calibration(known, strangers)
    assert found.caught == caught
    assert ("can hardly be distinguished" not in found.describe()) == can


def test_many_photos_marked_as_no_class_raise_the_limit() -> None:
    known = np.linspace(0.2, 1.0, 41)
    stated = Calibration(known, np.zeros(0)).rule.threshold
    few = Calibration(known, np.zeros(0), others=np.array([0.6])).rule.threshold
    many = Calibration(known, np.zeros(0), others=np.full(30, 0.3)).rule.threshold
    assert few == stated  # a single photo has less weight than twenty
    assert many > 0.3
    assert (known < many).sum() < 30


def test_a_photo_exactly_at_the_limit_is_known() -> None:
    known = np.array([0.3, 0.5, 0.7])
    strangers = np.array([0.3, 0.2])
    for others, limit in (([0.3], 0.3), ([0.3, 0.3], np.nextafter(0.3, 1))):
        assert Calibration(known, strangers, NEVER, 0.25, np.array(others)).rule.threshold == limit
    assert Calibration(known, strangers, NEVER, 0.25).caught == 0.5


@pytest.mark.parametrize("count", [8, 15, 40])
def test_as_many_new_photos_as_stated_are_rejected_with_few_examples(count: int) -> None:
    draws = np.random.default_rng(0)
    rejected = []
    for _ in range(1000):
        chances = 1 / (1 + np.exp(-draws.normal(2, 1, (2, count))))
        rejected.append((chances[1] < Calibration(chances[0], np.zeros(0)).rule.threshold).mean())
    assert np.mean(rejected) == pytest.approx(0.05, abs=0.025)


def test_expected_rates_are_described_in_one_line() -> None:
    known, strangers = np.linspace(0, 1, 21), np.where(np.arange(100) < 40, 0.001, 0.5)
    clear = Calibration(known, strangers, way=5)
    poor = Calibration(known, np.full(100, 0.5), way=5, false_rejections=0.2)
    assert clear.describe() == "rejects about 5% of your photos and 38% of other photos (± 22%, AUROC 0.68)"
    assert poor.describe() == (
        "unknown photos can hardly be distinguished from these classes: rejecting 20% of your photos catches 0% of "
        "other photos (± 16%, AUROC 0.50)"
    )
    alone = Calibration(known, np.zeros(0)).describe()
    assert alone == "rejects about 5% of your photos; with one class, other rates are unknown"
    assert np.isnan(Calibration(known, np.zeros(0)).auroc)


@pytest.mark.parametrize(("count", "factor"), [(1, np.inf), (2, 4.0), (3, 2.25), (5, 1.5625)])
def test_distance_to_the_other_examples_of_a_class(count: int, factor: float) -> None:
    distances = np.array([[2.0, 3.0], [2.0, 3.0]])
    found = without_itself(distances, [None, 1], [7, count])
    np.testing.assert_array_equal(found, [[2, 3], [2, 3 * factor]])
    assert distances[1, 1] == 3


@pytest.mark.parametrize(
    ("known", "unknown", "share"),
    [([2.0], [1.0], 1.0), ([1.0], [2.0], 0.0), ([1, 3], [1, 2, 3], 0.5), ([1, 2, 3], [0, 1], 5.5 / 6)],
)
def test_auroc_counts_pairs(known: list[float], unknown: list[float], share: float) -> None:
    assert auroc(known, unknown) == pytest.approx(share)


def test_the_stated_rate_includes_known_photos_that_are_rejected_because_of_others() -> None:
    known = np.linspace(0.1, 1, 10)
    found = Calibration(known, np.zeros(3), false_rejections=0.1, others=np.full(30, 0.35))
    assert found.rejected == pytest.approx((known < found.rule.threshold).mean())
    assert found.rejected > 0.1
    assert f"{found.rejected:.0%} of your photos" in found.describe()
    assert Calibration(known, np.zeros(3), false_rejections=0.1).rejected == 0.1
    assert Calibration(known, np.zeros(3), false_rejections=0.19).rejected == 0.19  # two of the ten, or 20%
    lowest = Calibration(known[:9], np.zeros(3), false_rejections=0.1, others=np.zeros(1))
    assert (lowest.rule.threshold, lowest.rejected) == (known[0], 0.1)  # the photo at the limit is not rejected
    assert Calibration(known, np.zeros(3), others=np.ones(30)).rule.threshold == 1


@pytest.mark.parametrize(
    ("scores", "fraction", "expected"),
    [
        ([3.0], 0.05, 3.0),
        ([2.0, 1.0], 0.05, 1 + np.log(0.15)),
        ([9.0, 1, 2, 4, 5, 6, 7, 8], 0.05, 1 + (4 - 1) / (1 + 1 / 2) * np.log(0.45)),
        ([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 0.2, 1.2),
        ([0.0, 1, 2, 3, 4, 5, 6, 7, 8], 0.15, 0.5),
    ],
)
def test_low_quantile_by_hand(scores: list[float], fraction: float, expected: float) -> None:
    assert low_quantile(np.array(scores), fraction) == pytest.approx(expected)


def test_terms_by_hand() -> None:
    errors = np.array([[9.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 90.0], [1.0] * 8])
    distances = np.array([[1.0, 0.5, 0.25, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0] * 8])
    found = terms((errors, np.array([16.0, 2.0]), distances), gamma=0.5)
    chance = 1 / np.exp(-0.5 * (errors[0] - 2)).sum()
    expected = [np.log([8, 3, 2, chance, 4, 2]), np.log([2, 1, 1, 1 / 8, 1e6, 1e6])]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    alone = terms((errors[:, :1], np.array([0.0, 2.0]), distances[:, :1]), gamma=0.5)
    np.testing.assert_allclose(
        alone, [[np.log(1e-12 / 9), 0, 0, 0, 0, 0], [*np.log([2, 1, 1, 1, 1e6, 1e6])]], atol=1e-9
    )
    nothing = terms((np.zeros((1, 2)), np.zeros(1), np.ones((1, 2))), gamma=1.0)
    assert nothing[0, 0] == 0  # without energy, nothing is explained
    equal = terms((np.array([[0.0, 1.0]]), np.ones(1), np.array([[np.inf, np.inf]])), gamma=0.0)
    np.testing.assert_allclose(equal, [[*np.log([1e4, 1e4, 1e4, 0.5, 1e-6, 1e-6])]])


def draw(shift: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return terms of known and unknown photos that differ by `shift`."""
    noise = np.random.default_rng(seed).standard_normal((2, n, 6))
    return noise[0] + shift, noise[1]


def test_few_examples_weigh_terms_as_the_prior_and_many_as_they_tell() -> None:
    shift = np.array([0, 0, 0, 3.0, 0, 0])
    few, many = (fit(*draw(shift, n, seed=1))[0] for n in (4, 3000))
    assert few[[0, 1, 4]].min() > 2 * few[[2, 5]].max()
    assert np.abs(many[[0, 1, 2, 4, 5]]).max() < 0.15 * many[3]


def test_known_is_a_probability() -> None:
    """Of new photos, half of them unknown, about as many are known as it says."""
    shift = np.full(6, 0.7)
    weights, bias = fit(*draw(shift, 200, seed=2))
    scores = [side @ weights + bias for side in draw(shift, 5000, seed=3)]
    chances, truth = 1 / (1 + np.exp(-np.concatenate(scores))), np.repeat([1, 0], 5000)
    for low in np.arange(0, 1, 0.2):
        inside = (low <= chances) & (chances < low + 0.2)
        assert truth[inside].mean() == pytest.approx(chances[inside].mean(), abs=0.08)


def test_terms_that_do_not_vary_have_no_weight() -> None:
    known, unknown = draw(np.full(6, 1.0), 50, seed=4)
    for side in (known, unknown):
        side[:, 4], side[:, 5] = 7.0, 7.0 + side[:, 5] * 5e-5
        side[:, 0] *= 1.5e-4
    weights, bias = fit(known, unknown)
    assert (weights[4:] == 0).all()
    assert (weights[:4] > 0).all()
    assert np.isfinite(bias)


def test_without_unknown_photos_the_limit_has_the_probability_one_half() -> None:
    measures, labels = examples(0.5, way=1)
    found = calibrate(measures, labels, HEAD.gamma)
    assert (found.known < 0.5).mean() == pytest.approx(0.05, abs=0.02)
    assert found.rule.threshold == pytest.approx(0.5, abs=1e-3)
    assert len(found.strangers) == 0


@pytest.mark.parametrize("way", [2, 3])
def test_examples_stand_for_unknown_photos_among_as_many_classes(way: int) -> None:
    """With equal errors for all other classes, unknown photos are those that no class is better for."""
    errors = np.full((2 * way, way), 4.0)
    labels = np.repeat(np.arange(way), 2)
    errors[np.arange(2 * way), labels] = 1.0 + np.arange(2 * way) / 10
    found = calibrate((errors, np.full(2 * way, 8.0), np.ones(errors.shape)), labels, HEAD.gamma)
    nothing = found.rule.known((np.full((1, way), 4.0), np.array([8.0]), np.ones((1, way))))
    np.testing.assert_allclose(found.strangers, nothing[0])
    assert found.auroc == 1


def test_unknown_photos_are_told_if_one_class_has_two_photos() -> None:
    (errors, energies, distances), labels = examples(0.5, way=3)
    found = calibrate((errors[:30], energies[:30], distances[:30]), labels[:30], HEAD.gamma)
    assert found.auroc > 0.9


def test_several_photos_stand_for_each_unknown_one_until_there_are_400() -> None:
    sizes = [len(calibrate(*examples(0.5, way, k), HEAD.gamma).strangers) for way, k in ((2, 2), (2, 25), (4, 30))]
    assert sizes == [400, 400, 480]


def test_few_examples_make_nothing_certain() -> None:
    for k in (2, 30):
        measures, labels = examples(0.5, k=k)
        rule = calibrate(measures, labels, HEAD.gamma).rule
        far = rule.known((np.array([[1e-9, 1, 1, 1]]), np.ones(1), np.full((1, 4), 1e-6)))
        assert far == pytest.approx(1 - 0.5 / (4 * k + 1))


def test_photos_of_classes_with_few_photos_are_known() -> None:
    """Their errors are larger, which examples of other classes show if their class is as small."""
    (errors, energies, distances), labels = examples(0.5, way=3)
    smaller = np.column_stack([errors[np.arange(90), labels] + 0.4, np.ones(90)])
    smaller[:5] = -1
    rules = [
        calibrate((errors, energies, distances), labels, HEAD.gamma, counts=counts, smaller=each).rule
        for counts, each in (((30, 30, 30), None), ((1, 6, 36), smaller))
    ]
    easier = np.column_stack([errors[np.arange(90), labels] - 0.4, np.full(90, 0.5)])
    no_offsets = calibrate((errors, energies, distances), labels, HEAD.gamma, counts=(1, 6, 36), smaller=easier).rule
    assert [*no_offsets.offsets] == [0, 0, 0]
    least, some, none = rules[1].offsets
    assert least > 0 == none
    assert some == pytest.approx(least / 2)
    few = np.array([[0.9, 1.1, 1.1]]), np.array([2.0]), np.ones((1, 3))
    assert [bool(rule.known(few)[0] < rule.threshold) for rule in rules] == [True, False]
    without = replace(rules[1], offsets=())
    np.testing.assert_array_equal(without.known(few), rules[0].known(few))


def test_distances_without_an_end_are_far_away() -> None:
    """The centre of a class without its only photo is infinitely far."""
    errors, energies, _ = examples(0.5)[0]
    rule = replace(NEVER, weights=(1.0,) * 6)
    assert np.isfinite(rule.known((errors, energies, np.full(errors.shape, np.inf)))).all()


def test_fewer_unknown_photos_are_expected_to_be_caught_among_few_classes() -> None:
    known, strangers = np.linspace(0, 1, 21), np.where(np.arange(100) < 64, 0.001, 0.5)
    caught = [Calibration(known, strangers, way=way).caught for way in (2, 3, 101)]
    assert caught == pytest.approx([0.64**2, 0.64**1.25, 0.64], abs=1e-4)


def test_the_fewer_classes_the_less_certain_is_the_rate_of_unknown_photos() -> None:
    """Photos of a class are rejected together: few classes are few trials, however many photos they have."""
    known, strangers = np.linspace(0, 1, 21), np.where(np.arange(100) < 50, 0.001, 0.5)
    errors = [Calibration(known, strangers, way=way).caught_error for way in (2, 12, 100)]
    assert errors == pytest.approx([0.3423, 0.1443, 0.0500], abs=1e-4)


RECORDED: dict[tuple[int, ...], list[float]] = {
    (4, 4): [2.133219, 1.608673, 0.020187, -0.125684, 2.650389, 0.086189, -3.419848, 0.289295, 0.25, 0.921875],
    (2, 3, 6): [
        *(1.342273, 1.539012, -0.605512, -0.305207, 1.741368, 0.242898, -2.662799, 0.180056, 0.016148, 0.617601),
        *(1.127212, 0.711192, 0),
    ],
    (1, 1, 3): [
        *(3.288719, 3.141998, -0.104559, -0.065593, 3.146644, -0.284775, -5.532025, 0.126723, 0, 0.888889),
        *(0.234959, 0.234959, 0),
    ],
    (3, 3, 3, 3): [
        *(1.881887, 1.860998, -0.256896, -0.306134, 1.829068, -0.045845, -3.825422, 0.306312, 0.283002, 0.737949)
    ],
    (5,): [1.324701, 0, 0, 0, 1.406512, 0, 0.132567, 0.569221, np.nan, np.nan],
}
"""By counts of photos: weights, bias, threshold, caught, AUROC, and offsets of classes."""


@pytest.mark.parametrize("counts", RECORDED)
def test_calibration_gives_the_recorded_values(counts: tuple[int, ...]) -> None:
    draws, labels = np.random.default_rng(1), np.repeat(np.arange(len(counts)), counts)
    errors, distances = draws.uniform(0.5, 1.5, (2, len(labels), len(counts)))
    errors[np.arange(len(labels)), labels] -= 0.3
    distances[np.arange(len(labels)), labels] -= 0.2
    used = np.array(counts)[labels] > 1
    measures = errors[used], draws.uniform(1.6, 2, used.sum()), distances[used]
    rows = np.arange(used.sum()), labels[used]
    smaller = 1.8 * np.stack([measures[0][rows], measures[2][rows]], 1)
    smaller[::5] = -1
    found = calibrate(measures, rows[1], 3.0, 0.1, None, counts, smaller if len(set(counts)) > 1 else None)
    values = [*found.fitted.weights, found.fitted.bias, found.rule.threshold, found.caught, found.auroc]
    np.testing.assert_allclose([*values, *found.fitted.offsets], RECORDED[counts], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("find", "most"), [("none", 1000), ("one", 200)])
def test_of_many_examples_an_even_selection_calibrates(find: str, most: int) -> None:
    assert [stride(count, find) for count in (0, 1, most, most + 1, 3 * most)] == [1, 1, 1, 2, 3]
