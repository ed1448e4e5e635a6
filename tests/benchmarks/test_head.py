"""All timed heads compute the same result."""

import re
import time

import pytest
import torch
from bench.plain import PLAIN, plain_error
from bench.timing import SETTLING_SECONDS, take_turns
from frn_export.graphs.head import head_graph
from head import INITIAL, OURS, HeadCase, HeadTiming, time_head

from frn.heads.frn import FRNHead


def test_the_plain_formulations_equal_the_head() -> None:
    support, query = torch.randn(3, 2, 9, 16), torch.randn(4, 9, 16)
    ours = FRNHead().class_error(support, query)
    for formulation in PLAIN:
        torch.testing.assert_close(plain_error(support, query, formulation), ours, rtol=1e-4, atol=1e-4)


def test_garbage_of_one_contestant_is_collected_before_the_next() -> None:
    runs: list[str] = []

    def slow() -> None:
        runs.append("a")
        time.sleep(1.1 * SETTLING_SECONDS)

    take_turns({"slow": slow, "quick": lambda: runs.append("b")}, rounds=2)
    order = "".join(runs)
    assert re.fullmatch("aab{9,}aab{9,}", order), "the slow one runs twice, the quick one as often as there is time"


def timed(d: int, *, shot: int = 1, backward: bool = False) -> HeadTiming:
    case = HeadCase(d, shot, backward=backward)
    return time_head(case, head_graph(INITIAL).SerializeToString(), rounds=3)


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("shot", [1, 5, 20])
def test_head_is_faster_than_the_paper_formulations_with_many_channels(shot: int, backward: bool) -> None:
    timing = timed(640, shot=shot, backward=backward)
    assert all(timing.times_as_fast(plain)[OURS] > 1 for plain in PLAIN)
