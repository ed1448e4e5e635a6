"""Counts against counts by hand."""

import numpy as np
import pytest
from inspection import tallies
from inspection.tallies import Tally

from frn.episodes import EpisodeShape
from tests.reports.test_tally import OWNER, by_hand, tally

__all__ = ["tally"]


def test_confusion_counts_every_query_once(tally: Tally) -> None:
    expected = np.zeros((4, 4), dtype=int)
    for truth, answer, _, _ in by_hand(tally):
        expected[truth, answer] += 1
    assert (tallies.confusion(tally) == expected).all()


def test_recall_is_the_mean_of_the_episodes_that_drew_the_class(tally: Tally) -> None:
    mean, half_width = tallies.recall(tally)
    right = [truth == answer for truth, answer, _, _ in by_hand(tally)]
    for label in range(4):
        episodes = [
            np.mean(right[i : i + 4]) for i in range(0, len(right), 4) if OWNER[tally.image.ravel()[i]] == label
        ]
        assert mean[label] == pytest.approx(100 * np.mean(episodes))
        assert half_width[label] == pytest.approx(196 * np.std(episodes) / len(episodes) ** 0.5)


def test_the_hardest_image_is_the_one_most_often_wrong(tally: Tally) -> None:
    asked, wrong = np.zeros(38), np.zeros(38)
    for truth, answer, image, _ in by_hand(tally):
        asked[image] += 1
        wrong[image] += truth != answer
    worst = tallies.hardest_images(tally, 5)
    score = (wrong - 1) / asked
    assert score[worst].tolist() == sorted(score, reverse=True)[:5]
    assert (tallies.asked(tally)[0] == asked).all()
    assert (tallies.asked(tally)[1] == wrong).all()
    episode, query = tallies.surest_mistake(tally, int(worst[0]))
    assert tally.image[episode, query] == worst[0]
    surest = max(p for t, a, i, p in by_hand(tally) if i == worst[0] and t != a)
    assert tally.probability[episode, query] == pytest.approx(surest)


def test_a_class_that_was_never_drawn_has_no_recall() -> None:
    made = Tally((6, 6, 6), EpisodeShape(way=2, shot=1, queries=1), 1)
    made.add(0, np.array([[[0, 1], [6, 7]]]), np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    assert np.isnan(tallies.recall(made)[0][2])
    assert tallies.recall(made)[0][:2].tolist() == [100, 100]


def test_one_wrong_answer_of_each_image_is_not_counted(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, wrong = np.array([2, 10, 1, 4, 3]), np.array([2, 5, 1, 0, 1])
    monkeypatch.setattr(tallies, "asked", lambda tally: (asked, wrong))
    # (wrong - 1) / asked is 0.5, 0.4, 0, none was wrong, 0
    assert tallies.hardest_images(tally, 5).tolist() == [0, 1, 2, 4]
    assert tallies.hardest_images(tally, 1).tolist() == [0]
