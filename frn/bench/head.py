"""The closed form beside the paper's formulations (Sec. 3.2; SM, Pseudo-codes): one episode's errors from its maps.

As in testing, or as in training: with the gradients of maps, alpha and beta.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from frn.bench.timing import take_turns
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead
from frn.inference.onnx_runtime import open_session
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from frn.system.precision import keep_freed_memory

INITIAL = HeadParameters(alpha=0.0, beta=0.0, gamma=1.0)
"""What every contestant runs with: an untrained head."""
EQ_8, EQ_10, LEFT_TO_RIGHT = PLAIN = ("paper, Eq. 8", "paper, Eq. 10", "left to right")
"""The paper's two listings, and what its text says of Eq. 8 and its listing does not do: no d x d matrix."""
OURS = "frn, torch"


@dataclass(frozen=True, slots=True)
class HeadCase:
    """What is timed."""

    d: int
    shot: int
    r: int = 25
    way: int = 5
    backward: bool = False
    """Gradients too, with the 15 queries per class of training in the place of 16."""

    @property
    def shape(self) -> EpisodeShape:
        """The episode."""
        return EpisodeShape(way=self.way, shot=self.shot, queries=15 if self.backward else 16)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Random maps of supports (way, shot, r, d) and of queries (queries, r, d)."""
        generator = torch.Generator().manual_seed(0)
        support = torch.randn(self.way, self.shot, self.r, self.d, generator=generator).relu()
        query = torch.randn(self.way * self.shape.queries, self.r, self.d, generator=generator).relu()
        return support, query


@dataclass(frozen=True, slots=True)
class HeadTiming:
    """Median milliseconds per episode of each formulation."""

    case: HeadCase
    milliseconds: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """What `frn bench head --json` says of it."""
        ratios = {plain: self.times_as_fast(plain) for plain in PLAIN}
        return {**asdict(self.case), "milliseconds": self.milliseconds, "times_as_fast": ratios}

    def times_as_fast(self, plain: str) -> dict[str, float]:
        """How many times as fast as one of the `PLAIN` formulations each is."""
        return {name: self.milliseconds[plain] / value for name, value in self.milliseconds.items()}


def rebuild_plainly(query: Tensor, pool: Tensor, lam: float | Tensor, rho: float | Tensor, formulation: str) -> Tensor:
    """Rebuilt queries of every class (way, n, d) by one of the `PLAIN` formulations; systems are inverted."""
    st = pool.mT
    if formulation == EQ_10:  # rho Q ((S^T S + lam I)^-1 S^T S)
        gram = st @ pool
        hat = _inverse(gram + lam * torch.eye(gram.shape[-1], device=pool.device)) @ gram
        return (query @ hat) * rho
    gram = pool @ st
    inverse = _inverse(gram + lam * torch.eye(gram.shape[-1], device=pool.device))
    if formulation == EQ_8:  # rho Q (S^T (S S^T + lam I)^-1 S)
        return (query @ (st @ inverse @ pool)) * rho
    return (query @ st @ inverse @ pool) * rho


def _inverse(systems: Tensor) -> Tensor:
    """Of systems (way, n, n); on a processor one after the other.

    Of several at once, each by several threads, torch 2.15 never returns: threads of its LU wait for each other.
    """
    return systems.inverse() if systems.is_cuda else torch.stack([system.inverse() for system in systems])


def plain_error(support: Tensor, query: Tensor, formulation: str, head: FRNHead | None = None) -> Tensor:
    """Class errors (queries, way) through rebuilt maps, with the head's alpha and beta, or both zero."""
    pool, locations = support.flatten(1, 2), query.flatten(0, 1)
    p, d = pool.shape[1:]
    lam: float | Tensor = p / d + 1e-6
    rho: float | Tensor = 1.0
    if head is not None:
        lam, rho = p / d * head.alpha.exp() + 1e-6, head.beta.exp()
    rebuilt = rebuild_plainly(locations, pool, lam, rho, formulation)
    return (rebuilt - locations).square().sum(-1).unflatten(1, query.shape[:2]).mean(-1).mT


def time_head(case: HeadCase, graph: bytes, *, rounds: int | None = None) -> HeadTiming:
    """Time every formulation on one episode of random maps, on one thread.

    `graph` is the bytes of the `head.onnx` of `INITIAL`; `rounds` as for `take_turns`.
    """
    keep_freed_memory()  # as training and evaluation do: nobody is timed while the system hands out pages
    support, query = case.draw()
    contestants = _steps(support, query) if case.backward else _answers(support, query, graph)
    return HeadTiming(case, take_turns(contestants, rounds=rounds, gradients=case.backward))


def _answers(support: Tensor, query: Tensor, graph: bytes) -> dict[str, Callable[[], object]]:
    support_array, query_array = support.numpy(), query.numpy()
    inputs = {"support": support_array, "shots": np.full(len(support), support.shape[1]), "query": query_array}
    head, session = FRNHead(), open_session(graph, "head.onnx", device="cpu", threads=1)
    return {
        **{name: partial(plain_error, support, query, name) for name in PLAIN},
        OURS: lambda: head.class_error(support, query),
        "frn, numpy": lambda: ClassScorer([enroll(maps, INITIAL) for maps in support_array]).class_error(query_array),
        "frn, onnx": lambda: session.run(["class_error"], inputs),
    }


def _steps(support: Tensor, query: Tensor) -> dict[str, Callable[[], object]]:
    head = FRNHead()
    learned = [support.requires_grad_(), query.requires_grad_(), head.alpha, head.beta]
    target = torch.arange(len(support)).repeat_interleave(len(query) // len(support))

    def step(error: Callable[[], Tensor]) -> object:
        return torch.autograd.grad(F.cross_entropy(-error(), target), learned)

    plain = {name: partial(step, partial(plain_error, support, query, name, head)) for name in PLAIN}
    return {**plain, OURS: partial(step, partial(head.class_error, support, query))}
