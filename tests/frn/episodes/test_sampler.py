"""The images of an episode."""

import numpy as np
import pytest

from frn.episodes import Balance, EpisodeShape, check_classes, concat_epoch, evaluation_episode, training_epoch
from frn.errors import FrnError

SHAPE = EpisodeShape(way=3, shot=2, queries=3)
RAGGED = (12, 5, 4, 23, 9, 31)  # the third class is too small for any episode


def label_of(index: int, sizes: tuple[int, ...]) -> int:
    return int(np.searchsorted(np.cumsum(sizes), index, side="right"))


def test_an_epoch_uses_no_image_twice_and_every_row_is_one_class() -> None:
    episodes = training_epoch(RAGGED, SHAPE, seed=0, epoch=0)
    used = np.concatenate([episode.ravel() for episode in episodes])
    assert len(set(used.tolist())) == len(used)
    for episode in episodes:
        assert episode.shape == (3, 5)
        labels = [{label_of(i, RAGGED) for i in row} for row in episode]
        assert all(len(classes) == 1 for classes in labels)
        assert len(set.union(*labels)) == 3
    assert 2 not in {label_of(i, RAGGED) for i in used}


def test_epoch_ends_when_fewer_than_way_classes_are_left() -> None:
    for epoch in range(20):
        episodes = training_epoch(RAGGED, SHAPE, seed=1, epoch=epoch)
        served = np.zeros(len(RAGGED), dtype=int)
        for episode in episodes:
            for row in episode:
                served[label_of(row[0], RAGGED)] += 1
        rounds = np.array([size // SHAPE.per_class for size in RAGGED])
        assert np.count_nonzero(rounds - served) < SHAPE.way


def test_episode_counts_equal_those_of_the_authors_sampler() -> None:
    """The limits come from simulating the authors' sampler for 64 classes of 600 images."""
    for way, shot, least, most in ((20, 5, 95, 96), (10, 5, 191, 192), (15, 1, 157, 157), (30, 1, 77, 78)):
        shape = EpisodeShape(way=way, shot=shot, queries=15)
        assert least <= len(training_epoch([600] * 64, shape, seed=0, epoch=0)) <= most


def test_classes_are_drawn_in_proportion_to_their_remaining_images() -> None:
    shape = EpisodeShape(way=2, shot=1, queries=1)
    first = [training_epoch((90, 10, 10), shape, seed=seed, epoch=0)[0] for seed in range(400)]
    share = np.mean([min(label_of(row[0], (90, 10, 10)) for row in episode) == 0 for episode in first])
    # 1 - P(both of the small ones first) = 1 - 2 * (10/110) * (10/100)
    assert abs(share - (1 - 2 * 10 / 110 * 10 / 100)) < 0.02


def test_episodes_depend_on_seed_and_epoch() -> None:
    once = training_epoch(RAGGED, SHAPE, seed=3, epoch=4)
    again = training_epoch(RAGGED, SHAPE, seed=3, epoch=4)
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert not np.array_equal(once[0], training_epoch(RAGGED, SHAPE, seed=3, epoch=5)[0])


def test_evaluation_episode_depends_only_on_its_index() -> None:
    """Episode number 7 is the same whether it is drawn alone or after the others."""
    sizes = (20, 30, 25, 21)
    sampled = [evaluation_episode(sizes, SHAPE, seed=0, index=index) for index in range(8)]
    assert np.array_equal(sampled[7], evaluation_episode(sizes, SHAPE, seed=0, index=7))
    assert len({episode.tobytes() for episode in sampled}) == 8


def test_evaluation_draws_classes_and_images_uniformly_and_without_replacement() -> None:
    sizes = (20, 200, 25, 21)
    counts = np.zeros(4)
    for index in range(1500):
        episode = evaluation_episode(sizes, SHAPE, seed=0, index=index)
        assert all(len(set(row.tolist())) == 5 for row in episode)
        counts[[label_of(row[0], sizes) for row in episode]] += 1
    assert np.abs(counts / 1500 - 3 / 4).max() < 0.04  # this holds for any class size


def test_a_class_that_is_too_small_is_reported_with_both_counts() -> None:
    names = ("ape", "bee", "cat")
    with pytest.raises(FrnError, match=r"class 'bee' has 3 images, but a 2-shot episode with 3 queries needs 5"):
        check_classes(names, (9, 3, 9), SHAPE, where="val", every_class=True)
    with pytest.raises(FrnError, match=r"val has 3 classes, but 5-way 2-shot episodes need 5\. Lower --way"):
        check_classes(names, (9, 9, 9), EpisodeShape(way=5, shot=2, queries=3), where="val", every_class=True)
    with pytest.raises(FrnError, match=r"2-way 1-shot episodes need 2\. Add classes"):
        check_classes(("ape",), (9,), EpisodeShape(way=2, shot=1, queries=3), where="val", every_class=True)
    check_classes((*names, "dog"), (9, 3, 9, 9), SHAPE, where="train", every_class=False)


def test_invalid_episode_shape_is_refused() -> None:
    with pytest.raises(FrnError, match="an episode needs shot >= 1, not 0"):
        EpisodeShape(way=5, shot=0, queries=1)


def test_smaller_exponent_favours_small_data_sets() -> None:
    sets, shape = [[30] * 40, [12] * 25], EpisodeShape(way=5, shot=1, queries=2)
    ends = np.cumsum([sum(sizes) for sizes in sets])

    def counts(balance: Balance) -> list[int]:
        episodes = concat_epoch(sets, shape, seed=3, epoch=1, balance=balance)
        origins = [np.unique(np.searchsorted(ends, episode, side="right")) for episode in episodes]
        assert all(len(origin) == 1 for origin in origins)
        assert all(len(np.unique(episode)) == episode.size for episode in episodes)
        return np.bincount(np.concatenate(origins)).tolist()

    once, halfway, equal = counts(1.0), counts(0.5), counts(0.0)
    assert once == [len(training_epoch(sizes, shape, seed=3, epoch=1)) for sizes in sets]
    assert abs(equal[0] - equal[1]) <= 1
    assert once[1] < halfway[1] < equal[1]
    assert abs(sum(halfway) - sum(once)) <= 1
    first, second = counts((3.0, 1.0))
    assert abs(first - 3 * second) <= 3
    with pytest.raises(FrnError, match="1 weights for 2 data sets"):
        counts((1.0,))
