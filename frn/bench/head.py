"""The closed form beside the paper's listings (SM, Pseudo-code): one episode's logits from given feature maps."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from frn.bench.timing import take_turns
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead
from frn.inference.enrolment import Bank, HeadParameters, enroll
from frn.inference.runtime import open_session

INITIAL = HeadParameters(alpha=0.0, beta=0.0, gamma=1.0)
"""What every contestant runs with: an untrained head."""
LISTINGS = ("paper, Eq. 8", "paper, Eq. 10")


@dataclass(frozen=True, slots=True)
class HeadTiming:
    """Median milliseconds per episode of each formulation."""

    d: int
    shape: EpisodeShape
    milliseconds: dict[str, float]

    def times_as_fast(self, listing: str) -> dict[str, float]:
        """How many times as fast as one of the paper's `LISTINGS` each formulation is."""
        return {name: self.milliseconds[listing] / value for name, value in self.milliseconds.items()}


def listing(support: Tensor, query: Tensor, *, woodbury: bool) -> Tensor:
    """Class errors as the paper's listings compute them, with alpha = beta = 0: Eq. 10, or Eq. 8.

    The rebuilt maps of all classes are formed, and systems are inverted.
    """
    pool, locations = support.flatten(1, 2), query.flatten(0, 1)
    p, d = pool.shape[1:]
    lam = p / d + 1e-6
    if woodbury:
        gram = pool.mT @ pool
        hat = (gram + lam * torch.eye(d, device=pool.device)).inverse() @ gram
        rebuilt = locations @ hat
    else:
        rebuilt = locations @ pool.mT @ (pool @ pool.mT + lam * torch.eye(p, device=pool.device)).inverse() @ pool
    return (rebuilt - locations).square().sum(-1).unflatten(1, query.shape[:2]).mean(-1).mT


def time_head(
    d: int, shot: int, graph: bytes, *, way: int = 5, queries: int = 16, r: int = 25, rounds: int = 15
) -> HeadTiming:
    """Time every formulation on one episode of random maps, on one thread.

    Args:
        d: channels.
        shot: support images per class.
        graph: bytes of the `head.onnx` of `INITIAL`.
        way: classes.
        queries: query images per class.
        r: locations of a map.
        rounds: how often each is timed.
    """
    shape = EpisodeShape(way=way, shot=shot, queries=queries)
    generator = torch.Generator().manual_seed(0)
    support = torch.randn(way, shot, r, d, generator=generator).relu()
    query = torch.randn(way * queries, r, d, generator=generator).relu()
    support_array, query_array = support.numpy(), query.numpy()
    inputs = {"support": support_array, "shots": np.full(way, shot), "query": query_array}
    head, session = FRNHead(), open_session(graph, "head.onnx", device="cpu", threads=1)
    eq_8, eq_10 = LISTINGS
    milliseconds = take_turns(
        {
            eq_8: lambda: listing(support, query, woodbury=False),
            eq_10: lambda: listing(support, query, woodbury=True),
            "frn, torch": lambda: head.class_error(support, query),
            "frn, numpy": lambda: Bank([enroll(maps, INITIAL) for maps in support_array]).class_error(query_array),
            "frn, onnx": lambda: session.run(["class_error"], inputs),
        },
        rounds=rounds,
    )
    return HeadTiming(d, shape, milliseconds)
