"""Enrolled classes, compared with recorded arrays, the torch head and brute force."""

import contextlib
import itertools
import math

import numpy as np
import pytest
import torch

from frn.errors import FrnError
from frn.ridge.enrolment import Centres, ClassScorer, energy, enroll, leave_one_out
from frn.ridge.parameters import HeadParameters
from frn.ridge.reconstruction import class_error, location_error
from tests.frn.ridge.families import FAMILIES, family


def maps_of(*shape: int, seed: int = 0) -> np.typing.NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def mean_square(query: np.ndarray) -> float:
    """Mean squared length of the feature vectors; float32 errors are measured relative to it."""
    return float(np.square(query).sum(-1).mean())


def torch_error(query: np.ndarray, pool: np.ndarray, head: HeadParameters) -> np.ndarray:
    p, d = pool.shape
    return class_error(
        torch.from_numpy(query), torch.from_numpy(pool)[None], head.lam(p, d), head.rho()
    )[:, 0].numpy()  # fmt: skip


@pytest.mark.parametrize("beta", [-1.0, 0.0, 1.5])  # rho h > 2 makes negative weights
def test_classes_of_unequal_size_are_scored_identically_together_and_alone(beta: float) -> None:
    head, query = HeadParameters(-0.5, beta, 1.0), maps_of(4, 9, 16, seed=1)
    pools = [maps_of(k, 9, 16, seed=k) for k in (1, 5, 2)]
    errors = ClassScorer([enroll(pool, head) for pool in pools]).class_error(query)
    for column, pool in enumerate(pools):
        expected = torch_error(query, pool.reshape(-1, 16), head)
        np.testing.assert_allclose(
            errors[:, column], expected, rtol=0, atol=1e-6 * mean_square(query) * head.rho() ** 2
        )


def test_error_map_equals_that_of_the_torch_head() -> None:
    head, query, pool = HeadParameters(0.3, 0.4, 1.0), maps_of(3, 9, 32), maps_of(2, 9, 32, seed=1)
    ours = ClassScorer([enroll(pool, head)]).location_error(query)[..., 0]
    flat = torch.from_numpy(pool.reshape(1, -1, 32))
    theirs = location_error(torch.from_numpy(query.reshape(-1, 32)), flat, head.lam(18, 32), head.rho())
    np.testing.assert_allclose(ours, theirs.numpy().reshape(3, 9), rtol=2e-6)


@pytest.mark.parametrize("d", [64, 160])  # d is below and above the number of pool rows
@pytest.mark.parametrize("name", FAMILIES)
def test_degenerate_supports_stay_within_5e_6(name: str, d: int) -> None:
    query, pool = (maps.numpy().reshape(-1, 25, d) for maps in family(name, 1, 5, 25, d))
    for alpha in (-3.0, 3.0):
        for beta in (-3.0, 0.6, 0.7, 3.0):
            head = HeadParameters(alpha, beta, 1.0)
            errors = ClassScorer([enroll(pool, head)]).class_error(query)[:, 0]
            expected = torch_error(query.astype(float), pool.astype(float).reshape(-1, d), head)
            assert np.abs(errors - expected).max() <= 5e-6 * mean_square(query) * max(1.0, (head.rho() - 1) ** 2)


@pytest.mark.parametrize(("k", "r", "d"), [(2, 4, 32), (5, 4, 32), (6, 9, 16), (12, 1, 8)])
@pytest.mark.parametrize("beta", [0.0, 1.2])
def test_leave_one_out_equals_brute_force(k: int, r: int, d: int, beta: float) -> None:
    head, maps = HeadParameters(-0.7, beta, 1.0), maps_of(k, r, d)
    expected = [
        torch_error(maps[i : i + 1], np.delete(maps, i, axis=0).reshape(-1, d), head)[0] for i in range(k)
    ]  # fmt: skip
    np.testing.assert_allclose(leave_one_out(maps, head), expected, rtol=1e-9)


def test_nothing_reconstructs_a_single_support() -> None:
    maps = maps_of(1, 4, 8)
    np.testing.assert_array_equal(leave_one_out(maps, HeadParameters()), energy(maps))


def test_distance_of_a_photo_to_each_class_is_measured_between_mean_locations() -> None:
    pools, query = [1 + maps_of(k, 9, 8, seed=k) for k in (1, 5, 2)], 1 + maps_of(4, 9, 8, seed=9)
    centres = np.stack([pool.mean((0, 1)) for pool in pools])
    expected = np.square(query.mean(1)[:, None] - centres).sum(-1) / np.square(centres).sum(1).mean()
    found = Centres.of([enroll(pool, HeadParameters()) for pool in pools]).distance(query)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert Centres.of([enroll(np.zeros((1, 9, 8)), HeadParameters())]).distance(0 * query).tolist() == [[0.0]] * 4


@pytest.mark.parametrize(("factor", "fits"), [(0.9e6, True), (1.1e6, False)])
def test_a_head_whose_rows_could_overflow_is_refused(factor: float, fits: bool) -> None:
    pool = np.full((1, 1, 1), 1000.0)  # h is 1, so the row is about rho
    with contextlib.nullcontext() if fits else pytest.raises(FrnError, match="head is damaged"):
        assert enroll(pool, HeadParameters(-20.0, math.log(factor))).rows.item() == pytest.approx(factor, rel=1e-3)


def test_unusable_supports_are_refused() -> None:
    head = HeadParameters(0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"shape \(1, 2, 4\) must be finite"):
        enroll(np.full((1, 2, 4), np.nan), head)
    with pytest.raises(ValueError, match="at least one class"):
        ClassScorer([])


def test_an_answer_does_not_depend_on_the_other_queries() -> None:
    scorer = ClassScorer([enroll(maps_of(shot, 25, 64, seed=shot), HeadParameters()) for shot in (1, 2, 5)])
    query = maps_of(18, 25, 64, seed=99).astype(np.float32)
    together = scorer.class_error(query)
    for start, end in itertools.pairwise(itertools.accumulate([0, 1, 2, 3, 5, 7])):
        np.testing.assert_array_equal(scorer.class_error(query[start:end]), together[start:end])


@pytest.mark.parametrize(("shot", "beta"), [(1, 0.2), (4, 0.2), (4, 1.2)])
def test_a_class_gets_the_same_score_among_many_classes_as_among_few(
    monkeypatch: pytest.MonkeyPatch, shot: int, beta: float
) -> None:
    """Score in blocks, and with operators if there are many supports; rho above 2 gives negative signs."""
    head = HeadParameters(alpha=-1.0, beta=beta)
    classes = [enroll(maps_of(shot, 6, 12, seed=seed), head) for seed in range(40)]
    query = maps_of(5, 6, 12, seed=99)
    expected = np.concatenate([ClassScorer([enrolled]).class_error(query) for enrolled in classes], axis=1)
    monkeypatch.setattr("frn.ridge.enrolment.BLOCK", 300)
    monkeypatch.setattr("frn.ridge.enrolment.OPERATORS", 1)
    monkeypatch.setattr("frn.ridge.enrolment.READ_COST", 1)
    scorer = ClassScorer(classes)
    np.testing.assert_allclose(scorer.class_error(query[:1]), expected[:1], rtol=0, atol=2e-6 * mean_square(query))
    assert scorer.operators is None, "one query does not pay for them"
    np.testing.assert_allclose(scorer.class_error(query), expected, rtol=0, atol=2e-6 * mean_square(query))
    assert (scorer.operators is None) == (shot == 1)
    locations = np.concatenate([ClassScorer([enrolled]).location_error(query) for enrolled in classes], axis=-1)
    np.testing.assert_allclose(scorer.location_error(query), locations, rtol=0, atol=2e-5 * mean_square(query))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8, 1e12])
@pytest.mark.parametrize("head", [(0, 0, 1), (-50, 50, 1e5), (50, -50, 1), (-3, 0.9, 3)])
@pytest.mark.parametrize("shape", [(16, 8), (4, 64), (1, 1)])
def test_extreme_model_values_are_accepted_or_refused(
    scale: float, head: tuple[float, float, float], shape: tuple[int, int]
) -> None:
    """Identical maps with the largest values that an extractor may return, with any head that a file may contain."""
    maps = np.full((3, *shape), scale, np.float32)
    with contextlib.suppress(FrnError):
        assert np.isfinite(ClassScorer([enroll(maps, HeadParameters(*head))]).class_error(maps)).all()
    with contextlib.suppress(FrnError):
        assert np.isfinite(leave_one_out(maps, HeadParameters(*head))).all()


@pytest.mark.parametrize(("name", "most"), [("alpha", 50.0), ("beta", -50.0), ("gamma", 1e5)])
def test_a_head_beyond_its_limits_is_refused(name: str, most: float) -> None:
    learned = {"alpha": 0.0, "beta": 0.0, "gamma": 1.0}
    assert getattr(HeadParameters.from_metadata({**learned, name: most}), name) == most
    with pytest.raises(FrnError):
        HeadParameters.from_metadata({**learned, name: np.nextafter(most, most * 2)})
