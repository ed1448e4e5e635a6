"""The head's parameters, and how those of enrolled classes are chosen."""

import math
from dataclasses import replace

import numpy as np
import pytest

from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.ridge.enrolment import ClassScorer, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters, probabilities, rescaled_lambda, temperature
from frn.ridge.tuning import (
    FEW,
    FLAT,
    UNTRAINED,
    Prior,
    TuningEpisode,
    likeness,
    tune,
    tune_by_leave_one_out,
    tune_on_episodes,
    variety,
)
from frn.ridge.unequal import by_content


@pytest.mark.parametrize(("shots", "factor"), [(1, 0.2**0.5), (5, 1), (20, 2)])
def test_gamma_grows_with_the_square_root_of_the_shots(shots: int, factor: float) -> None:
    assert temperature(7.0, shots) == pytest.approx(7.0 * factor)


def test_lambda_is_rescaled_and_has_the_floor_of_the_authors_code() -> None:
    assert rescaled_lambda(3.0, 50, 20) == pytest.approx(7.5 + 1e-6, rel=1e-12)
    head = HeadParameters(math.log(3), math.log(1.5))
    assert head.lam(50, 20) == pytest.approx(7.5 + 1e-6, rel=1e-12)
    assert HeadParameters(-50.0).lam(1, 1) == pytest.approx(1e-6, rel=1e-12)
    assert head.rho() == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("name", "limit"), [("alpha", 50.0), ("alpha", -50.0), ("beta", 50.0), ("beta", -50.0), ("gamma", 1e5)]
)
def test_parameters_are_accepted_up_to_their_limit(name: str, limit: float) -> None:
    learned = {"alpha": 0.0, "beta": 0.0, "gamma": 1.0}
    assert getattr(HeadParameters.from_metadata(learned | {name: limit}), name) == limit
    for beyond in (np.nextafter(limit, 2 * limit), math.nan, math.inf):
        with pytest.raises(FrnError, match=r"^alpha, beta and gamma are"):
            HeadParameters.from_metadata(learned | {name: beyond})


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_gamma_must_be_positive(gamma: float) -> None:
    with pytest.raises(FrnError, match=r"^alpha, beta and gamma are"):
        HeadParameters.from_metadata({"alpha": 0.0, "beta": 0.0, "gamma": gamma})


@pytest.mark.parametrize("names", [("alpha", "beta"), ("alpha", "beta", "gamma", "delta"), ()])
def test_all_three_parameters_are_needed(names: tuple[str, ...]) -> None:
    with pytest.raises(FrnError) as caught:
        HeadParameters.from_metadata(dict.fromkeys(names, 0.0))
    assert str(caught.value) == f"an FRN head has alpha, beta and gamma, not {', '.join(names)}"


def test_metadata_is_read_back_and_sorted_by_name() -> None:
    assert HeadParameters(0.5, -1.0, 2.0).as_metadata() == '{"alpha": 0.5, "beta": -1.0, "gamma": 2.0}'


def test_probabilities_are_the_softmax_of_errors_times_gamma() -> None:
    errors = np.array([[1.0, 2.0, 4.0], [5.0, 5.0, 5.0], [0.0, 1e6, 2e6]], np.float32)
    shares = probabilities(errors, 0.5)
    weights = np.exp([-0.5, -1, -2])
    np.testing.assert_allclose(shares[0], weights / weights.sum())
    np.testing.assert_allclose(shares[1:], np.array([[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]))
    assert shares.dtype == np.float64


TRAINED = Prior.trained(HeadParameters(2.0, 0.2, 5.0))


def classes(way: int, k: int, r: int, d: int, *, noise: float, seed: int = 0) -> list[np.ndarray]:
    """Make maps of classes with three directions each, plus noise."""
    generator = np.random.default_rng(seed)
    own = generator.standard_normal((way, 3, d)) / np.sqrt(d)
    mixed = generator.standard_normal((way, k, r, 3)) @ own[:, None]
    pools = mixed + noise * generator.standard_normal((way, k, r, d)) / np.sqrt(d)
    return [pool[by_content(pool)] for pool in pools]


def left_out_errors(pools: list[np.ndarray], head: HeadParameters) -> np.ndarray:
    """Compute the same with the two public functions; for few supports, the other classes omit one."""
    rivals = [np.delete(pool, len(pool) // 2, 0) if 1 < len(pool) <= FEW else pool for pool in pools]
    scorer = ClassScorer([enroll(pool, head) for pool in rivals])
    errors = scorer.class_error(np.concatenate([pool for pool in pools if len(pool) > 1])).astype(float)
    first = 0
    for label, pool in enumerate(pools):
        if len(pool) > 1:
            errors[first : first + len(pool), label] = leave_one_out(pool, head)
            first += len(pool)
    return errors


def loss(pools: list[np.ndarray], head: HeadParameters, prior: Prior) -> float:
    """Negative log posterior of the held-out supports, for classes of equal size."""
    k = len(pools[0])
    logits = -head.gamma * left_out_errors(pools, head)
    logs = logits - logits.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    labels = np.repeat(np.arange(len(pools)), k)
    return float(-logs[np.arange(len(labels)), labels].sum() + prior.surprise(head, k - 1))


@pytest.mark.parametrize("prior", [TRAINED, UNTRAINED, FLAT])
def test_chosen_head_is_a_local_optimum(prior: Prior) -> None:
    k = 4
    pools = classes(4, k, 6, 20, noise=1.0)
    chosen = tune_by_leave_one_out(pools, prior)
    more, fewer = prior.head(k), prior.head(k - 1)
    found = HeadParameters(
        chosen.alpha - more.alpha + fewer.alpha, chosen.beta, chosen.gamma * fewer.gamma / more.gamma
    )
    least = loss(pools, found, prior)
    for alpha, gamma in ((0.7, 1), (-0.7, 1), (0, 1.1), (0, 0.9)):
        assert loss(pools, HeadParameters(found.alpha + alpha, found.beta, found.gamma * gamma), prior) > least - 1e-6


def test_parameters_stay_near_the_prior_for_few_photos_but_not_for_many() -> None:
    distances = []
    for k in (2, 4, 16):
        chosen = tune_by_leave_one_out(classes(4, k, 6, 20, noise=1.0), TRAINED)
        distances.append(abs(chosen.alpha - TRAINED.head(k).alpha))
    assert distances[0] < distances[1] < distances[2]


@pytest.mark.parametrize(("rho", "growth"), [(0.8, 3.0), (1.0, 3.0), (1.25, 9**0.625), (2.0, 9.0), (2.5, 9.0)])
def test_prior_gamma_and_lambda_grow_with_the_root_of_the_shots(rho: float, growth: float) -> None:
    prior = Prior(2.0, np.log(rho), 5.0)
    one, nine = prior.head(1), prior.head(9)
    assert nine.lam(9 * 36, 384) / one.lam(36, 384) == pytest.approx(growth, rel=1e-3)
    assert (one.alpha, one.beta) == (prior.alpha, prior.beta)
    assert one.gamma == pytest.approx(prior.gamma / 5**0.5)
    assert nine.gamma == pytest.approx(3 * one.gamma)


def test_the_scale_of_the_maps_does_not_change_the_answer() -> None:
    pools = classes(3, 8, 6, 20, noise=2.5, seed=2)
    # with maps e times as large, lambda is e^2 times as large; alpha + 2 is a step of the search
    heads = [tune_by_leave_one_out([scale * pool for pool in pools], FLAT) for scale in (1.0, np.e)]
    assert heads[1].alpha == pytest.approx(heads[0].alpha + 2, abs=0.3)
    assert heads[1].gamma * np.e**2 == pytest.approx(heads[0].gamma, rel=0.1)


def test_the_prior_decides_if_leave_one_out_is_impossible_or_perfect() -> None:
    pools = classes(3, 4, 6, 20, noise=1.0)
    assert tune_by_leave_one_out([pool[:1] for pool in pools], TRAINED) == TRAINED.head(1)
    assert tune_by_leave_one_out(pools[:1], TRAINED) == TRAINED.head(4)
    assert tune_by_leave_one_out([], TRAINED) == TRAINED.head(1)


def test_more_than_64_classes_are_subsampled_evenly() -> None:
    pools = classes(66, 2, 1, 4, noise=1.0)
    for count in (65, 66):
        assert tune_by_leave_one_out(pools[:count], TRAINED) == tune_by_leave_one_out(pools[:count:2], TRAINED)
    assert tune_by_leave_one_out(pools[:64], TRAINED) != tune_by_leave_one_out(pools[:64:2], TRAINED)


def test_subsampled_classes_include_one_that_can_leave_a_photo_out() -> None:
    pools = [pool[:1] for pool in classes(66, 2, 1, 4, noise=1.0)]
    pools[1] = classes(66, 2, 1, 4, noise=1.0)[1]
    every, second = (tune_by_leave_one_out(each, TRAINED) for each in (pools, pools[1::2]))
    assert (every.alpha, every.gamma) == pytest.approx((second.alpha, second.gamma), rel=1e-6)


@pytest.mark.parametrize(
    ("prior", "alpha", "beta", "gamma"),
    [(TRAINED, 1.513252, 0.2, 4.783956), (UNTRAINED, 3.306853, 0.0, 80.0), (FLAT, 0.090354, 0.0, 8.655641)],
)
def test_each_prior_gives_the_recorded_head(prior: Prior, alpha: float, beta: float, gamma: float) -> None:
    found = tune_by_leave_one_out(classes(4, 4, 6, 20, noise=1.0), prior)
    assert (found.alpha, found.beta) == pytest.approx((alpha, beta), abs=1e-3)
    assert found.gamma == pytest.approx(gamma, rel=1e-3)


@pytest.mark.parametrize(("seed", "alpha", "gamma"), [(0, 3.06531, 3.170089), (1, 2.20128, 3.837543)])
def test_episodes_from_other_classes_give_the_recorded_head(seed: int, alpha: float, gamma: float) -> None:
    maps = np.concatenate(classes(5, 6, 4, 12, noise=1.5))
    found = tune_on_episodes(maps, [6] * 5, EpisodeShape(way=3, shot=2, queries=1), seed=seed)
    assert (found.alpha, found.beta) == pytest.approx((alpha, 0.0), abs=1e-3)
    assert found.gamma == pytest.approx(gamma, rel=1e-3)


def test_a_class_of_zeros_does_not_prevent_a_choice() -> None:
    pools = classes(3, 3, 4, 24, noise=0.5)
    pools[0] = np.zeros_like(pools[0])
    chosen = tune_by_leave_one_out(pools, TRAINED)
    assert np.isfinite([chosen.alpha, chosen.beta, chosen.gamma]).all()


@pytest.mark.parametrize(("k", "alpha", "gamma"), [(10, -0.206155, 15.666602), (11, 0.353635, 8.138405)])
def test_other_classes_omit_a_support_for_at_most_ten_shots(k: int, alpha: float, gamma: float) -> None:
    found = tune_by_leave_one_out(classes(3, k, 2, 6, noise=1.5), UNTRAINED)
    assert found.alpha == pytest.approx(alpha, abs=1e-3)
    assert found.gamma == pytest.approx(gamma, rel=1e-3)


@pytest.mark.parametrize(("sizes", "alpha", "gamma"), [((3, 3), 3.224091, 72.703), ((1, 3, 6, 2), 3.541855, 63.703333)])
def test_two_classes_or_classes_of_different_sizes_give_the_recorded_head(
    sizes: tuple[int, ...], alpha: float, gamma: float
) -> None:
    pools = classes(len(sizes), max(3, max(sizes)), 4, 12, noise=1.0)
    found = tune_by_leave_one_out([pool[:size] for pool, size in zip(pools, sizes, strict=True)], UNTRAINED)
    assert found.alpha == pytest.approx(alpha, abs=1e-3)
    assert found.gamma == pytest.approx(gamma, rel=1e-3)


def test_gamma_falls_at_most_by_eight_spreads_of_the_prior() -> None:
    """Every query is much nearer to the wrong class."""
    one, other = np.full((3, 1, 2), [100.0, 0.0]), np.full((3, 1, 2), [0.0, 100.0])
    found = tune([TuningEpisode([one, other], [(0, other), (1, one)])], TRAINED, 1.0)
    assert found.gamma / TRAINED.head(1.0).gamma == pytest.approx(np.exp(-8 * 0.25), rel=1e-4)


def test_with_one_photo_of_each_class_gamma_falls_with_the_variety_of_the_photos() -> None:
    draws = np.random.default_rng(0)
    shared, own = draws.standard_normal((4, 1, 1, 8)), draws.standard_normal((4, 1, 5, 8))
    varied, alike = list(own), list(3 * shared + own)
    prior = Prior(1.0, 0.0, 10.0, variety=variety(varied))
    usual = prior.head(1)
    assert tune_by_leave_one_out(varied, prior) == usual
    lower = tune_by_leave_one_out(alike, prior)
    assert lower.gamma == pytest.approx(usual.gamma * (variety(alike) / variety(varied)) ** 0.6)
    assert lower.alpha == usual.alpha
    assert tune_by_leave_one_out(alike, replace(prior, variety=0.0)) == usual
    assert variety([np.ones((1, 5, 8)), np.ones((1, 5, 8))]) == pytest.approx(1e-6)


def test_with_one_photo_of_each_class_gamma_falls_with_their_likeness() -> None:
    draws = np.random.default_rng(0)
    apart = [3 * draws.standard_normal((1, 1, 8)) + draws.standard_normal((1, 5, 8)) for _ in range(4)]
    alike = [2 * np.ones((1, 1, 8)) + one for one in apart]
    prior = Prior(1.0, 0.0, 10.0, variety=1e-9, likeness=likeness(alike) / 2)
    usual = prior.head(1)
    assert tune_by_leave_one_out(apart, prior) == usual
    assert tune_by_leave_one_out(alike, prior).gamma == pytest.approx(usual.gamma / 2**0.45)
    assert tune_by_leave_one_out(alike[:1], prior) == usual  # one photo is like no other
    assert likeness([np.ones((1, 5, 8))] * 3) == pytest.approx(1)
    assert likeness([np.eye(8)[None, :4], np.eye(8)[None, 4:]]) == pytest.approx(0)
