"""The closed form beside the paper's formulations (Sec. 3.2; SM, Pseudo-codes): one episode's errors from its maps."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from frn.bench.timing import take_turns
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead
from frn.inference.runtime import open_session
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters

INITIAL = HeadParameters(alpha=0.0, beta=0.0, gamma=1.0)
"""What every contestant runs with: an untrained head."""
EQ_8, EQ_10, LEFT_TO_RIGHT = PLAIN = ("paper, Eq. 8", "paper, Eq. 10", "left to right")
"""The paper's two listings, and what its text says of Eq. 8 and its listing does not do: no d x d matrix."""


@dataclass(frozen=True, slots=True)
class HeadTiming:
    """Median milliseconds per episode of each formulation."""

    d: int
    shape: EpisodeShape
    milliseconds: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """What `frn bench head --json` says of it."""
        ratios = {plain: self.times_as_fast(plain) for plain in PLAIN}
        return {"d": self.d, "shot": self.shape.shot, "milliseconds": self.milliseconds, "times_as_fast": ratios}

    def times_as_fast(self, plain: str) -> dict[str, float]:
        """How many times as fast as one of the `PLAIN` formulations each is."""
        return {name: self.milliseconds[plain] / value for name, value in self.milliseconds.items()}


def rebuild_plainly(query: Tensor, pool: Tensor, lam: float, rho: float, formulation: str) -> Tensor:
    """Rebuilt queries of every class (way, n, d) by one of the `PLAIN` formulations; systems are inverted."""
    st = pool.mT
    if formulation == EQ_10:  # rho Q ((S^T S + lam I)^-1 S^T S)
        gram = st @ pool
        hat = (gram + lam * torch.eye(gram.shape[-1], device=pool.device)).inverse() @ gram
        return (query @ hat) * rho
    gram = pool @ st
    inverse = (gram + lam * torch.eye(gram.shape[-1], device=pool.device)).inverse()
    if formulation == EQ_8:  # rho Q (S^T (S S^T + lam I)^-1 S)
        return (query @ (st @ inverse @ pool)) * rho
    return (query @ st @ inverse @ pool) * rho


def plain_error(support: Tensor, query: Tensor, formulation: str) -> Tensor:
    """Class errors (queries, way) through rebuilt maps, of an untrained head (alpha = beta = 0)."""
    pool, locations = support.flatten(1, 2), query.flatten(0, 1)
    p, d = pool.shape[1:]
    rebuilt = rebuild_plainly(locations, pool, p / d + 1e-6, 1.0, formulation)
    return (rebuilt - locations).square().sum(-1).unflatten(1, query.shape[:2]).mean(-1).mT


def time_head(d: int, shot: int, graph: bytes, *, rounds: int | None = None) -> HeadTiming:
    """Time every formulation on one episode of random maps (r = 25, d), on one thread.

    `graph` is the bytes of the `head.onnx` of `INITIAL`; `rounds` as for `take_turns`.
    """
    shape = EpisodeShape(way=5, shot=shot, queries=16)
    generator = torch.Generator().manual_seed(0)
    support = torch.randn(shape.way, shot, 25, d, generator=generator).relu()
    query = torch.randn(shape.way * shape.queries, 25, d, generator=generator).relu()
    support_array, query_array = support.numpy(), query.numpy()
    inputs = {"support": support_array, "shots": np.full(shape.way, shot), "query": query_array}
    head, session = FRNHead(), open_session(graph, "head.onnx", device="cpu", threads=1)
    milliseconds = take_turns(
        {
            **{name: partial(plain_error, support, query, name) for name in PLAIN},
            "frn, torch": lambda: head.class_error(support, query),
            "frn, numpy": lambda: ClassScorer([enroll(maps, INITIAL) for maps in support_array]).class_error(
                query_array
            ),
            "frn, onnx": lambda: session.run(["class_error"], inputs),
        },
        rounds=rounds,
    )
    return HeadTiming(d, shape, milliseconds)
