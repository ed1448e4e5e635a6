"""The counts of an evaluation, compared with counts by hand."""

import numpy as np
import pytest
from inspection import tallies
from inspection.tallies import BINS, Tally

from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.labelled import ReliabilityDiagram

SIZES, SHAPE = (9, 11, 8, 10), EpisodeShape(way=3, shot=2, queries=4)
OWNER = np.repeat(np.arange(4), SIZES)


@pytest.fixture
def tally() -> Tally:
    """Forty episodes with random answers, recorded in chunks and out of order."""
    made, logits = Tally(SIZES, SHAPE, 40), np.random.default_rng(0).normal(size=(40, 12, 3)) * 2
    for start in (16, 0, 32, 8, 24):
        sampled = np.stack([evaluation_episode(SIZES, SHAPE, seed=0, index=i) for i in range(start, start + 8)])
        made.add(start, sampled, logits[start : start + 8])
    return made


def by_hand(tally: Tally) -> list[tuple[int, int, int, float]]:
    """Return every query as its class, its answer, its image and the answer's probability."""
    logits = np.random.default_rng(0).normal(size=(40, 12, 3)) * 2
    found = []
    for index in range(40):
        sampled = evaluation_episode(SIZES, SHAPE, seed=0, index=index)
        for query, image in enumerate(sampled[:, SHAPE.shot :].ravel()):
            shares = np.exp(logits[index, query]) / np.exp(logits[index, query]).sum()
            found.append((int(OWNER[image]), int(OWNER[sampled[shares.argmax(), 0]]), int(image), float(shares.max())))
    return found


def test_confusion_counts_every_query_once(tally: Tally) -> None:
    expected = np.zeros((4, 4), dtype=int)
    for truth, answer, _, _ in by_hand(tally):
        expected[truth, answer] += 1
    assert (tallies.confusion(tally) == expected).all()


def test_recall_is_the_mean_over_episodes_that_drew_the_class(tally: Tally) -> None:
    mean, half_width = tallies.recall(tally)
    right = [truth == answer for truth, answer, _, _ in by_hand(tally)]
    for label in range(4):
        episodes = [
            np.mean(right[i : i + 4]) for i in range(0, len(right), 4) if OWNER[tally.image.ravel()[i]] == label
        ]
        assert mean[label] == pytest.approx(100 * np.mean(episodes))
        assert half_width[label] == pytest.approx(196 * np.std(episodes) / len(episodes) ** 0.5)


def test_the_calibration_error_is_the_weighted_mean_gap_over_bins(tally: Tally) -> None:
    gap, queries = 0.0, by_hand(tally)
    for bin_ in range(BINS):
        inside = [(p, t == a) for t, a, _, p in queries if bin_ / BINS <= p < (bin_ + 1) / BINS]
        if inside:
            shares, right = zip(*inside, strict=True)
            gap += len(inside) / len(queries) * abs(np.mean(shares) - np.mean(right))
    assert tally.calibration().error == pytest.approx(gap, abs=1e-6)


def test_probability_of_one_falls_into_the_last_bin() -> None:
    found = ReliabilityDiagram.of(np.array([0.0, 0.5, 0.75, 1.0]), np.array([True, False, True, True]), bins=4)
    assert found.counts.tolist() == [1, 0, 1, 2]
    assert found.confidence.tolist() == [0, 0, 0.5, 0.875]
    assert found.accuracy.tolist() == [1, 0, 0, 1]
    assert found.error == pytest.approx((1 + 0.5 + 2 * 0.125) / 4)


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


def test_class_that_was_never_drawn_has_no_recall() -> None:
    made = Tally((6, 6, 6), EpisodeShape(way=2, shot=1, queries=1), 1)
    made.add(0, np.array([[[0, 1], [6, 7]]]), np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    assert np.isnan(tallies.recall(made)[0][2])
    assert tallies.recall(made)[0][:2].tolist() == [100, 100]


def test_one_wrong_answer_per_image_is_not_counted(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, wrong = np.array([2, 10, 1, 4, 3]), np.array([2, 5, 1, 0, 1])
    monkeypatch.setattr(tallies, "asked", lambda tally: (asked, wrong))
    # (wrong - 1) / queries is 0.5, 0.4, 0, -, 0; "-" means never wrong
    assert tallies.hardest_images(tally, 5).tolist() == [0, 1, 2, 4]
    assert tallies.hardest_images(tally, 1).tolist() == [0]


def test_probabilities_fall_into_their_bins() -> None:
    made = Tally((2, 2), EpisodeShape(way=2, shot=1, queries=1), 1)
    made.add(
        0, np.array([[[0, 1], [2, 3]]]), np.array([[[np.log(3), 0.0], [np.log(9), 0.0]]])
    )  # probabilities of 75 and 90 percent
    found = made.calibration()
    assert found.counts.tolist() == [1 if place in (int(0.75 * BINS), int(0.9 * BINS)) else 0 for place in range(BINS)]
