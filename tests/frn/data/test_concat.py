"""Training on several data sets at once."""

import numpy as np
import pytest

from frn.data.pixel_cache import ConcatImages, StoredImages
from frn.data.synthetic import draw_classes
from frn.episodes import EpisodeShape, concat_epoch, training_epoch

SHAPE = EpisodeShape(way=3, shot=1, queries=2)


@pytest.fixture(scope="module")
def parts() -> tuple[StoredImages, ...]:
    return draw_classes(4, 6, size=16, seed=0), draw_classes(3, 5, size=24, seed=1)


def test_canvas_holds_the_images_from_all_data_sets_in_order(parts: tuple[StoredImages, ...]) -> None:
    canvas, extents = ConcatImages(parts).gather([24, 0, 38, 23])
    assert extents.tolist() == [[24, 24], [16, 16], [24, 24], [16, 16]]
    for row, (part, image) in enumerate([(1, 0), (0, 0), (1, 14), (0, 23)]):
        side = extents[row][0]
        np.testing.assert_array_equal(canvas[row, :side, :side], parts[part].images()[image])
        assert not canvas[row, side:].any()


def test_no_episode_mixes_data_sets_and_each_data_set_has_its_own_epoch() -> None:
    sets = ((20, 20, 20, 20), (9, 9, 9))
    episodes = concat_epoch(sets, SHAPE, seed=0, epoch=1)
    first = [episode for episode in episodes if episode.max() < 80]
    second = [episode - 80 for episode in episodes if episode.min() >= 80]
    assert len(first) + len(second) == len(episodes)
    for found, sizes in ((first, sets[0]), (second, sets[1])):
        own = training_epoch(sizes, SHAPE, seed=0, epoch=1)
        assert sorted(episode.tolist() for episode in found) == sorted(episode.tolist() for episode in own)
    of_first = [episode.max() < 80 for episode in episodes]
    assert of_first != sorted(of_first, reverse=True)  # interleaved
