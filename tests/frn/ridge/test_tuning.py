"""Lambda, rho and gamma from the supports alone."""

import numpy as np
import pytest

from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.leave_one_out import leave_one_out
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import ALPHAS, BETAS, TuningEpisode, _best_gamma, _Solver, tune_by_leave_one_out


def classes(way: int, k: int, r: int, d: int, *, noise: float, seed: int = 0) -> list[np.ndarray]:
    """Maps of classes: each has three directions of its own, under noise."""
    generator = np.random.default_rng(seed)
    own = generator.standard_normal((way, 3, d)) / np.sqrt(d)
    mixed = generator.standard_normal((way, k, r, 3)) @ own[:, None]
    return list(mixed + noise * generator.standard_normal((way, k, r, d)) / np.sqrt(d))


def loss(pools: list[np.ndarray], head: HeadParameters) -> float:
    """Smoothed loss of the left-out supports, straight from the two public functions, one support at a time."""
    errors, labels = [], []
    for label, pool in enumerate(pools):
        rivals = ClassScorer([enroll(other, head) for other in pools]).class_error(pool).astype(float)
        rivals[:, label] = leave_one_out(pool, head)
        errors.append(rivals)
        labels += [label] * len(pool)
    logits = -head.gamma * np.concatenate(errors)
    logs = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
    logs -= logits.max(1, keepdims=True)
    doubt = 1 / (len(labels) + 2)
    target = np.full(logs.shape, doubt / (len(pools) - 1))
    target[np.arange(len(labels)), labels] = 1 - doubt
    return float(-(target * logs).sum(1).mean())


@pytest.mark.parametrize(("k", "r", "d"), [(3, 4, 24), (5, 9, 12)])
@pytest.mark.parametrize("alpha", [-4.0, 0.0, 2.5])
def test_the_parabolas_are_the_errors_of_leaving_out_and_of_the_rivals(k: int, r: int, d: int, alpha: float) -> None:
    pools = classes(3, k, r, d, noise=0.5)
    solver = _Solver(TuningEpisode(pools))
    along, kept = solver.parabolas(alpha)
    for beta in (-0.4, 0.5):
        head = HeadParameters(alpha, beta, 1.0)
        found = solver.energy[:, None] - 2 * head.rho() * along + head.rho() ** 2 * kept
        expected = ClassScorer([enroll(pool, head) for pool in pools]).class_error(np.concatenate(pools)).astype(float)
        for label, pool in enumerate(pools):
            expected[solver.labels == label, label] = leave_one_out(pool, head)
        np.testing.assert_allclose(found, expected, atol=2e-6 * solver.energy.max())


def test_no_head_around_the_chosen_one_is_better() -> None:
    pools = classes(4, 4, 6, 20, noise=1.0)
    chosen = tune_by_leave_one_out(pools)
    least = loss(pools, chosen)
    assert least < loss(pools, HeadParameters())
    for alpha, beta, gamma in ((1, 0, 1), (-1, 0, 1), (0, 0.1, 1), (0, -0.1, 1), (0, 0, 1.2), (0, 0, 0.8)):
        other = HeadParameters(chosen.alpha + alpha, chosen.beta + beta, chosen.gamma * gamma)
        if abs(other.beta) <= 0.6:
            assert loss(pools, other) >= least - 1e-6


def test_the_scale_of_the_maps_does_not_change_what_is_said() -> None:
    pools = classes(3, 4, 6, 20, noise=1.0)
    # lambda grows by e^2 with maps e times as large: alpha by 2, a step of the search
    heads = [tune_by_leave_one_out([scale * pool for pool in pools]) for scale in (1.0, np.e)]
    assert heads[1].alpha == pytest.approx(heads[0].alpha + 2)
    assert heads[1].beta == pytest.approx(heads[0].beta)
    assert heads[1].gamma * np.e**2 == pytest.approx(heads[0].gamma, rel=1e-3)


def test_certainty_is_never_worse_than_none_and_stays_finite_where_all_classes_are_told_apart() -> None:
    easy, hard = (classes(3, 5, 6, 20, noise=noise) for noise in (0.05, 3.0))
    assert loss(hard, tune_by_leave_one_out(hard)) <= np.log(3) + 1e-6 < loss(hard, HeadParameters(0.0, 0.0, 50.0))
    certain = tune_by_leave_one_out(easy)
    assert loss(easy, certain) < loss(easy, HeadParameters(certain.alpha, certain.beta, 100 * certain.gamma))


def test_nothing_is_chosen_where_nothing_can_be_left_out_or_mistaken() -> None:
    pools = classes(3, 4, 6, 20, noise=1.0)
    assert tune_by_leave_one_out([pool[:1] for pool in pools]) == HeadParameters()
    assert tune_by_leave_one_out(pools[:1]) == HeadParameters()


def test_classes_of_one_support_are_rivals_of_the_others() -> None:
    pools = classes(3, 4, 6, 20, noise=1.0)
    alone = tune_by_leave_one_out([pools[0], pools[1], pools[2][:1]])
    assert alone != HeadParameters()
    solver = _Solver(TuningEpisode([pools[0], pools[1], pools[2][:1]]))
    assert set(solver.labels.tolist()) == {0, 1}
    assert solver.parabolas(0.0)[0].shape == (8, 3)


def test_gamma_is_the_minimum_of_the_loss_and_comes_with_it() -> None:
    """Against a fine grid over the loss of the paper's softmax, written out."""
    generator = np.random.default_rng(3)
    energy, along = generator.uniform(1, 2, 40), generator.uniform(0, 1, (40, 3))
    kept, labels = along * generator.uniform(0.5, 1, (40, 3)), np.arange(40) % 3
    along[np.arange(40), labels] += 0.2
    least, head = _best_gamma(energy, along, kept, labels, 1.0, 0.2)
    errors = energy[:, None] - 2 * np.exp(0.2) * along + np.exp(0.4) * kept
    target = np.full((40, 3), 1 / 42 / 2)
    target[np.arange(40), labels] = 1 - 1 / 42

    def smoothed(gamma: float) -> float:
        logs = -gamma * errors - np.log(np.exp(-gamma * errors).sum(1, keepdims=True))
        return float(-(target * logs).sum(1).mean())

    assert (head.alpha, head.beta) == (1.0, 0.2)
    assert least == pytest.approx(smoothed(head.gamma), abs=1e-12)
    assert least <= min(smoothed(2.0**power) for power in np.linspace(-2, 8, 2001)) + 1e-9
    assert smoothed(head.gamma * 1.001) > least < smoothed(head.gamma / 1.001)


@pytest.mark.parametrize("seed", range(4))
def test_alpha_is_the_best_on_a_grid_of_halves_around_it(seed: int) -> None:
    """Two at first, then one, then a half: the last refinement counts."""
    pools = classes(4, 4, 6, 20, noise=1.0, seed=seed)
    chosen = tune_by_leave_one_out(pools)
    solver = _Solver(TuningEpisode(pools))

    def least(alpha: float) -> float:
        along, kept = solver.parabolas(alpha)
        return min(_best_gamma(solver.energy, along, kept, solver.labels, alpha, float(b))[0] for b in BETAS)

    assert least(chosen.alpha) <= min(least(chosen.alpha + step) for step in (-1, -0.5, 0.5, 1))


def test_all_alphas_are_tried() -> None:
    assert sorted(ALPHAS) == [-6, -4, -2, 0, 2, 4, 6, 8]
