"""Photos without labels: transductive inference, and groups of similar photos."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from frn.errors import FrnError
from frn.features.feature_cache import Maps
from frn.images.near_copies import BYTES
from frn.ridge.enrolment import Array, ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import Prior
from frn.ridge.unlabelled.groups import cut, group, ward
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


PRIOR = Prior.trained(HeadParameters(4.0, 0.1, 20.0))


def draw(sizes: tuple[int, ...], noise: float = 0.7) -> tuple[Maps, Array]:
    """Make maps (n, 4, 48) of classes of these sizes in mixed order, and their labels."""
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    own = generator.standard_normal((len(sizes), 4, 48))
    maps = (own[labels] + noise * generator.standard_normal((len(labels), 4, 48))) / 7
    return maps.astype(np.float32), labels


def looks(maps: Maps) -> list[bytes]:
    """Return this many looks, none of which is a near copy of another."""
    return [np.random.default_rng(number).bytes(BYTES) for number in range(len(maps))]


def as_labels(groups: list[list[list[int]]], count: int) -> Array:
    labels = np.full(count, -1)
    for number, members in enumerate(groups):
        for near in members:
            labels[near] = number
    return labels


@pytest.mark.parametrize("count", [4, None])
def test_groups_match_the_classes_and_their_number(count: int | None) -> None:
    maps, labels = draw((12, 20, 9, 15))
    groups = group(maps, looks(maps), PRIOR, count)
    assert len(groups) == 4
    assert adjusted_rand_score(labels, as_labels(groups, len(maps))) > 0.9
    sizes = [len(members) for members in groups]
    assert sizes == sorted(sizes, reverse=True)


def test_ward_clusters_equal_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    points = generator.standard_normal((60, 5))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    merges = ward(points * generator.uniform(0.1, 10, (60, 1)))  # their lengths do not matter
    assert ward(np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.1]])) == [(0, 2), (0, 1)]
    for count in (2, 7, 25):
        expected = AgglomerativeClustering(count).fit_predict(points)
        assert adjusted_rand_score(expected, cut(merges, count)) == 1


def test_the_most_central_photo_comes_first() -> None:
    maps, labels = draw((10, 10))
    centre = np.mean(maps[labels == 0], axis=0)
    maps[np.flatnonzero(labels == 0)[3]] = centre
    groups = group(maps, looks(maps), PRIOR, 2)
    assert [np.flatnonzero(labels == 0)[3]] in [members[0] for members in groups]


def test_near_copies_count_once_and_stay_with_their_photo() -> None:
    maps, _ = draw((8, 8))
    copies = maps[:1].repeat(30, axis=0) + 1e-3 * np.random.default_rng(0).standard_normal((30, 4, 48)).astype("f4")
    own = looks(maps)
    groups = group(np.concatenate([maps, copies]), own + own[:1] * 30, PRIOR, 2)
    (near,) = (near for members in groups for near in members if 0 in near)
    assert near == [0, *range(16, 46)]
    firsts = [
        {tuple(sorted(near[0] for near in own)) for own in found} for found in (groups, group(maps, own, PRIOR, 2))
    ]
    assert firsts[0] == firsts[1]


def test_at_most_5000_photos_are_grouped() -> None:
    maps = np.zeros((5001, 1, 1), np.float32)
    with pytest.raises(FrnError, match="5,001 photos are too many for one grouping; the limit is 5,000"):
        group(maps, [b""] * 5001, PRIOR)


@pytest.mark.parametrize(("noise", "expected"), [(1.0, 4), (1.4, 3)])
@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_noisy_classes_are_not_split_and_the_noisiest_are_merged(noise: float, expected: int, scale: float) -> None:
    maps, _ = draw((12, 20, 9, 15), noise)
    prior = replace(PRIOR, alpha=PRIOR.alpha + 2 * np.log(scale), gamma=PRIOR.gamma / scale**2)
    assert len(group(np.float32(scale) * maps, looks(maps), prior)) == expected


def test_there_are_at_most_a_third_as_many_groups_as_photos() -> None:
    maps, _ = draw((2,) * 6)
    assert len(group(maps, looks(maps), PRIOR)) <= 4


def test_the_number_of_groups_is_between_one_and_the_number_of_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    maps, _ = draw((2, 2))
    monkeypatch.setattr("frn.ridge.unlabelled.groups.MAX_PHOTOS", 4)
    assert [len(group(maps, looks(maps), PRIOR, count)) for count in (1, 4)] == [1, 4]
    for count in (0, -1, 5):
        with pytest.raises(FrnError, match=rf"^4 different photos cannot form {count} groups$"):
            group(maps, looks(maps), PRIOR, count)


def test_a_hard_draw_gives_the_recorded_groups() -> None:
    """Fewer or more rounds, or another alpha in them, give other groups."""
    maps, _ = draw((12, 20, 9, 15), 2.0)
    first = [0, 1, 3, 7, 8, 10, 14, 16, 17, 21, 22, 23, 27, 29, 31, 32, 33, 34, 36, 38, 41, 45, 46, 47, 49, 52, 53]
    recorded = np.isin(np.arange(len(maps)), first)
    assert adjusted_rand_score(recorded, as_labels(group(maps, looks(maps), PRIOR, 4), len(maps))) > 0.9
