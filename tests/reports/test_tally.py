"""Counts against counts by hand."""

import numpy as np
import pytest
from inspection.tallies import Tally

from frn.episodes import EpisodeShape, evaluation_episode
from frn.evaluation.reliability import BINS

SIZES, SHAPE = (9, 11, 8, 10), EpisodeShape(way=3, shot=2, queries=4)
OWNER = np.repeat(np.arange(4), SIZES)


@pytest.fixture
def tally() -> Tally:
    """Forty episodes with random answers, noted in pieces and out of order."""
    made, logits = Tally(SIZES, SHAPE, 40), np.random.default_rng(0).normal(size=(40, 12, 3)) * 2
    for start in (16, 0, 32, 8, 24):
        sampled = np.stack([evaluation_episode(SIZES, SHAPE, seed=0, index=i) for i in range(start, start + 8)])
        made.add(start, sampled, logits[start : start + 8])
    return made


def by_hand(tally: Tally) -> list[tuple[int, int, int, float]]:
    """Every query as its class, its answer, its image, the answer's probability."""
    logits = np.random.default_rng(0).normal(size=(40, 12, 3)) * 2
    found = []
    for index in range(40):
        sampled = evaluation_episode(SIZES, SHAPE, seed=0, index=index)
        for query, image in enumerate(sampled[:, SHAPE.shot :].ravel()):
            shares = np.exp(logits[index, query]) / np.exp(logits[index, query]).sum()
            found.append((int(OWNER[image]), int(OWNER[sampled[shares.argmax(), 0]]), int(image), float(shares.max())))
    return found


def test_the_calibration_error_is_the_weighted_gap_of_the_bins(tally: Tally) -> None:
    gap, queries = 0.0, by_hand(tally)
    for bin_ in range(BINS):
        inside = [(p, t == a) for t, a, _, p in queries if bin_ / BINS <= p < (bin_ + 1) / BINS]
        if inside:
            shares, right = zip(*inside, strict=True)
            gap += len(inside) / len(queries) * abs(np.mean(shares) - np.mean(right))
    assert tally.calibration().error == pytest.approx(gap, abs=1e-6)


def test_probabilities_fall_into_their_bins() -> None:
    made = Tally((2, 2), EpisodeShape(way=2, shot=1, queries=1), 1)
    made.add(0, np.array([[[0, 1], [2, 3]]]), np.array([[[np.log(3), 0.0], [np.log(9), 0.0]]]))  # 75 and 90 percent
    found = made.calibration()
    assert found.counts.tolist() == [1 if place in (int(0.75 * BINS), int(0.9 * BINS)) else 0 for place in range(BINS)]
