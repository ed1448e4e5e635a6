"""Separating known from unknown classes: counts by hand, and features with an obvious answer."""

import numpy as np
import pytest

from frn.episodes import EpisodeShape
from frn.evaluation.open_set import doubled, measure_open_set
from frn.inference.unknown import auroc
from frn.ridge.parameters import HeadParameters

HEAD = HeadParameters(0.0, 0.0, 2.0)
SHAPE = EpisodeShape(way=3, shot=4, queries=5)


def test_auroc_is_the_share_of_ordered_pairs() -> None:
    known, unknown = np.array([3.0, 1.0, 2.0]), np.array([2.0, 0.0])
    # 3 > 2, 3 > 0, 1 < 2, 1 > 0, 2 = 2 (half), 2 > 0
    assert auroc(known, unknown) == pytest.approx((1 + 1 + 0 + 1 + 0.5 + 1) / 6)
    assert auroc(unknown, known) == pytest.approx(1 - auroc(known, unknown))


@pytest.mark.parametrize(("noise", "least", "most"), [(0.3, 99, 100), (50.0, 40, 60)])
def test_unknown_photos_are_separable_only_if_classes_differ(noise: float, least: float, most: float) -> None:
    generator = np.random.default_rng(0)
    centres = generator.standard_normal((8, 1, 4, 16))
    maps = (centres + noise * generator.standard_normal((8, 12, 4, 16))).reshape(-1, 4, 16).astype(np.float32)
    found = measure_open_set(HEAD, maps, (12,) * 8, SHAPE, episodes=20, seed=0)
    assert least <= found["auroc"] <= most
    again = measure_open_set(HEAD, maps, (12,) * 8, SHAPE, episodes=20, seed=0)
    assert again == found
    if least == 99:
        assert found["false_rejections"] < 15
        assert found["true_positive_rate"] > 90


def test_one_shot_has_no_threshold_and_rejects_nothing() -> None:
    maps = np.random.default_rng(0).standard_normal((48, 4, 16)).astype(np.float32)
    shape = EpisodeShape(way=3, shot=1, queries=5)
    found = measure_open_set(HEAD, maps, (8,) * 6, shape, episodes=5, seed=0)
    assert (found["false_rejections"], found["true_positive_rate"]) == (0, 0)
    assert doubled(shape) == EpisodeShape(way=6, shot=1, queries=5)


def test_every_episode_is_reported() -> None:
    maps = np.random.default_rng(0).standard_normal((48, 4, 16)).astype(np.float32)
    shape, seen = EpisodeShape(way=3, shot=1, queries=5), list[tuple[int, int]]()
    measure_open_set(HEAD, maps, (8,) * 6, shape, episodes=3, seed=0, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]
