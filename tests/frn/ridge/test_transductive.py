"""Queries refine the classes to which they are compared."""

import numpy as np
import pytest

from frn.ridge.enrolment import Array, ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from frn.ridge.unlabelled.transductive import mixture_errors, refine

HEAD = HeadParameters(4.0, 0.2, 20.0)
R, D = 4, 96


def episode(seed: int, shots: tuple[int, ...], counts: tuple[int, ...]) -> tuple[list[Array], Array, Array]:
    """Make pools, queries and labels; each class consists of noisy copies of one map."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((len(shots), 1, R, D)) / np.sqrt(D)

    def draw(column: int, count: int) -> Array:
        noise = generator.standard_normal((count, R, D)) / np.sqrt(D)
        return np.asarray(centres[column] + 2.2 * noise)

    pools = [draw(column, shot) for column, shot in enumerate(shots)]
    queries = np.concatenate([draw(column, count) for column, count in enumerate(counts)])
    return pools, queries, np.repeat(np.arange(len(counts)), counts)


def plain_errors(pools: list[Array], queries: Array) -> Array:
    return ClassScorer([enroll(pool, HEAD) for pool in pools]).class_error(queries).astype(np.float64)


def test_errors_equal_a_pool_without_the_querys_own_rows() -> None:
    pools, queries, _ = episode(0, (1, 3, 2), (5, 2, 4))
    asked = queries.astype(np.float32)
    weights = np.random.default_rng(1).uniform(0, 1, (len(queries), 3))
    weights[2] = 0
    grams = np.stack([pool.reshape(-1, D).T @ pool.reshape(-1, D) for pool in pools])
    found = mixture_errors(grams, np.array([1, 3, 2]), asked, weights, HEAD)
    for query, maps in enumerate(asked):
        for column, pool in enumerate(pools):
            others = [
                np.sqrt(w) * q
                for place, (w, q) in enumerate(zip(weights[:, column], asked, strict=True))
                if place != query
            ]
            rows = np.concatenate([pool.reshape(-1, D), *others])
            lam = HEAD.lam(R, D) * (len(pool) + weights[:, column].sum())
            rebuilt = HEAD.rho() * maps @ np.linalg.solve(rows.T @ rows + lam * np.eye(D), rows.T @ rows)
            np.testing.assert_allclose(found[query, column], np.square(maps - rebuilt).sum(1).mean(), rtol=1e-4)


def test_zero_weights_give_the_errors_of_the_enrolled_classes() -> None:
    pools, queries, _ = episode(1, (2, 2), (3, 3))
    grams = np.stack([pool.reshape(-1, D).T @ pool.reshape(-1, D) for pool in pools])
    found = mixture_errors(grams, np.array([2, 2]), queries.astype(np.float32), np.zeros((6, 2)), HEAD)
    np.testing.assert_allclose(found, plain_errors(pools, queries), rtol=1e-4)


def test_queries_improve_one_example_classes_in_any_order() -> None:
    before, after = [], []
    for seed in range(10):
        pools, queries, labels = episode(seed, (1,) * 4, (25, 10, 20, 15))
        errors = plain_errors(pools, queries)
        refined, _ = refine(errors, pools, queries, HEAD)
        before.append((errors.argmin(1) == labels).mean())
        after.append((refined.argmin(1) == labels).mean())
    assert np.mean(after) > np.mean(before) + 0.08
    order = np.random.default_rng(0).permutation(len(queries))
    np.testing.assert_allclose(refine(errors[order], pools, queries[order], HEAD)[0], refined[order], rtol=1e-3)


def test_single_query_keeps_its_answer() -> None:
    pools, queries, _ = episode(5, (2, 2), (1, 0))
    errors = plain_errors(pools, queries)
    refined, _ = refine(errors, pools, queries, HEAD)
    assert refined.argmin(1) == errors.argmin(1)


def test_three_rounds_give_the_recorded_errors() -> None:
    pools, queries, _ = episode(7, (1, 2, 1), (6, 3, 5))
    errors, gamma = refine(plain_errors(pools, queries), pools, queries, HEAD)
    assert gamma == pytest.approx(23.01747, rel=1e-4)
    np.testing.assert_allclose(errors[0], [5.375704, 4.816136, 5.473113], rtol=1e-4)
    np.testing.assert_allclose(errors[-1], [5.739110, 4.944975, 5.365509], rtol=1e-4)


def test_classes_without_examples_count_as_one_photo_at_least() -> None:
    """Lambda follows the sum of the weights, but is at least that of one photo."""
    _, queries, _ = episode(0, (1,), (4,))
    asked, weights = queries.astype(np.float32), np.array([[0.2], [0.1], [0.3], [0.0]])
    found = mixture_errors(np.zeros((1, D, D)), np.array([0]), asked, weights, HEAD)
    rows = np.concatenate([np.sqrt(w) * q for w, q in zip(weights[:3, 0], asked, strict=False)])
    lam = HEAD.lam(R, D)
    rebuilt = HEAD.rho() * asked[3] @ np.linalg.solve(rows.T @ rows + lam * np.eye(D), rows.T @ rows)
    np.testing.assert_allclose(found[3, 0], np.square(asked[3] - rebuilt).sum(1).mean(), rtol=1e-4)


def test_results_do_not_depend_on_how_many_moments_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pools, queries, _ = episode(7, (1, 2, 1), (6, 3, 5))
    errors = plain_errors(pools, queries)
    expected, gamma = refine(errors, pools, queries, HEAD)
    for block in (3 * D * D, 1):
        monkeypatch.setattr("frn.ridge.unlabelled.transductive.BLOCK", block)
        found, same = refine(errors, pools, queries, HEAD)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        assert same == pytest.approx(gamma)
