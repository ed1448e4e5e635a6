"""The closed form beside the paper's listings (SM, Pseudo-code): one episode's logits from given feature maps."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from frn.bench.timing import take_turns
from frn.episodes import EpisodeShape
from frn.heads.frn import FRNHead
from frn.inference.enrolment import Bank, HeadParameters, enroll


@dataclass(frozen=True, slots=True)
class HeadTiming:
    """Median milliseconds per episode of each formulation."""

    d: int
    shape: EpisodeShape
    milliseconds: dict[str, float]


def listing(support: Tensor, query: Tensor, *, woodbury: bool) -> Tensor:
    """Class errors as the paper's listings compute them, with alpha = beta = 0: Eq. 10, or Eq. 8.

    The rebuilt maps of all classes are formed, and systems are inverted.
    """
    pool, locations = support.flatten(1, 2), query.flatten(0, 1)
    p, d = pool.shape[1:]
    lam = p / d + 1e-6
    if woodbury:
        gram = pool.mT @ pool
        hat = (gram + lam * torch.eye(d)).inverse() @ gram
        rebuilt = locations @ hat
    else:
        rebuilt = locations @ pool.mT @ (pool @ pool.mT + lam * torch.eye(p)).inverse() @ pool
    return (rebuilt - locations).square().sum(-1).unflatten(1, query.shape[:2]).mean(-1).mT


def time_head(d: int, shot: int, *, way: int = 5, queries: int = 16, r: int = 25, rounds: int = 15) -> HeadTiming:
    """Time every formulation on one episode of random maps, on one thread."""
    shape = EpisodeShape(way=way, shot=shot, queries=queries)
    generator = torch.Generator().manual_seed(0)
    support = torch.randn(way, shot, r, d, generator=generator).relu()
    query = torch.randn(way * queries, r, d, generator=generator).relu()
    head, parameters = FRNHead(), HeadParameters(0.0, 0.0, 1.0)
    support_array, query_array = support.numpy(), query.numpy()

    def enrolled() -> object:
        return Bank([enroll(maps, parameters) for maps in support_array]).class_error(query_array)

    contestants: dict[str, Callable[[], object]] = {
        "paper, Eq. 8": lambda: listing(support, query, woodbury=False),
        "paper, Eq. 10": lambda: listing(support, query, woodbury=True),
        "frn, torch": lambda: head.class_error(support, query),
        "frn, numpy": enrolled,
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            seconds = take_turns(contestants, rounds=rounds)
    finally:
        torch.set_num_threads(threads)
    return HeadTiming(d, shape, {name: 1000 * value for name, value in seconds.items()})
