"""Episodes whose classes are enrolled as photos are."""

import numpy as np
import pytest

from frn.episodes import EpisodeShape
from frn.evaluation.enrolled import enrolled_accuracies
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
    np.testing.assert_array_equal(shares[:, :1], plain)
    assert shares[:, 1].mean() > shares[:, 0].mean() + 0.05
    assert shares[:, 3].mean() > shares[:, 2].mean()


def test_each_column_holds_its_own_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single query is either right or wrong; fifteen per class give an accuracy in between."""
    maps = np.random.default_rng(0).standard_normal((60, 4, 96)).astype(np.float32)
    monkeypatch.setattr("frn.evaluation.enrolled._unequal", lambda drawn, *_: [drawn[0, :1], *[drawn[0, :0]] * 3])
    prior, shape = Prior.trained(HeadParameters(4.0, 0.2, 20.0)), EpisodeShape(way=4, shot=1, queries=9)
    shares = enrolled_accuracies(prior, maps, (15,) * 4, shape, episodes=range(4), seed=3, transductive=True)
    assert set(shares[:, 2:].ravel()) <= {0.0, 1.0}
    assert not set(shares[:, :2].ravel()) & {0.0, 1.0}
