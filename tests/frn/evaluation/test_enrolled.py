"""Episodes whose classes are enrolled as photos are."""

import numpy as np
import pytest

from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.episodes import enrolled_accuracies, unequal_queries
from frn.ridge.parameters import HeadParameters
from frn.ridge.tuning import Prior


@pytest.mark.parametrize("shot", [1, 4])
def test_enrolled_episodes_choose_their_own_alpha_and_gamma(shot: int) -> None:
    generator = np.random.default_rng(0)
    own = generator.standard_normal((6, 1, 1, 24))
    maps = (own + 0.3 * generator.standard_normal((6, 12, 9, 24))).reshape(-1, 9, 24).astype(np.float32)
    shape = EpisodeShape(way=4, shot=shot, queries=5)
    prior = Prior.trained(HeadParameters(1.0, 0.0, 2.0))
    shares = enrolled_accuracies(prior, maps, (12,) * 6, shape, episodes=range(8), seed=3)
    assert (shares > 0.95).all()
    again = enrolled_accuracies(prior, maps, (12,) * 6, shape, episodes=range(5, 8), seed=3)
    np.testing.assert_array_equal(again, shares[5:])


def test_transductive_accuracy_is_measured_on_the_same_queries() -> None:
    generator = np.random.default_rng(0)
    own = generator.standard_normal((6, 1, 4, 96))
    maps = (own + 2 * generator.standard_normal((6, 30, 4, 96))).reshape(-1, 4, 96).astype(np.float32)
    maps /= 10
    prior = Prior.trained(HeadParameters(4.0, 0.2, 20.0))
    shape = EpisodeShape(way=4, shot=1, queries=15)
    shares = enrolled_accuracies(prior, maps, (30,) * 6, shape, episodes=range(6), seed=3, transductive=True)
    plain = enrolled_accuracies(prior, maps, (30,) * 6, shape, episodes=range(6), seed=3)
    assert shares.shape == (6, 4)
    np.testing.assert_array_equal(shares[:, :1], plain)
    assert shares[:, 1].mean() > shares[:, 0].mean() + 0.05
    assert shares[:, 3].mean() > shares[:, 2].mean()


SIZES = (30, 12, 25, 40)


@pytest.mark.parametrize(("index", "counts"), [(0, [9, 10, 5]), (1, [14, 0, 10]), (2, [9, 10, 5])])
def test_unequal_queries_are_the_recorded_ones(index: int, counts: list[int]) -> None:
    shape = EpisodeShape(way=3, shot=2, queries=8)
    drawn = evaluation_episode(SIZES, shape, seed=0, index=index)
    found = unequal_queries(drawn, SIZES, shape, np.random.default_rng([0, index]))
    assert [len(own) for own in found] == counts
    ends = np.cumsum(SIZES)
    for supports, own in zip(drawn[:, :2], found, strict=True):
        assert len(set(own)) == len(own)
        assert not set(own) & set(supports)
        assert set(np.searchsorted(ends, own, side="right")) <= {np.searchsorted(ends, supports[0], side="right")}


def test_a_small_class_gives_all_its_other_images() -> None:
    shape = EpisodeShape(way=2, shot=2, queries=8)
    for index in range(20):
        drawn = evaluation_episode((10, 10), shape, seed=0, index=index)
        first, second = unequal_queries(drawn, (10, 10), shape, np.random.default_rng(index))
        assert len(first) + len(second) <= 16
        assert max(len(first), len(second)) == 8
        if len(first) == 8:
            assert set(first) | set(drawn[0, :2]) == set(
                range(10 * int(drawn[0, 0] >= 10), 10 + 10 * int(drawn[0, 0] >= 10))
            )
