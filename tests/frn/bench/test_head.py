"""What is timed computes the same."""

import time

import torch

from frn.bench.head import listing, time_head
from frn.bench.timing import take_turns
from frn.heads.frn import FRNHead


def test_the_listings_compute_what_the_head_computes() -> None:
    support, query = torch.randn(3, 2, 9, 16), torch.randn(4, 9, 16)
    ours = FRNHead().class_error(support, query)
    for woodbury in (True, False):
        torch.testing.assert_close(listing(support, query, woodbury=woodbury), ours, rtol=1e-4, atol=1e-4)


def test_turns_are_timed_by_their_median() -> None:
    seconds = take_turns({"quick": lambda: None, "slow": lambda: time.sleep(0.01)}, rounds=3)
    assert seconds["quick"] < 0.005 < 0.0099 < seconds["slow"]


def test_the_head_beats_the_papers_listings_where_channels_are_many() -> None:
    timing = time_head(640, 1, way=3, queries=4, rounds=3).milliseconds
    assert timing["frn, torch"] < min(timing["paper, Eq. 8"], timing["paper, Eq. 10"])
