"""Compare the speed of `frn`'s closed form and the paper's listings (Sec. 3.2 and supplement) on one episode.

The script times testing, or training with gradients for maps, alpha and beta.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from bench import AnyRounds, AsJson, run
from bench.plain import PLAIN, plain_error
from bench.timing import take_turns
from frn_export.graphs.head import head_graph
from torch import Tensor

from frn.cli.shell.console import print_json, print_table, stdout, user_errors
from frn.episodes import EpisodeShape
from frn.features.onnx_runtime import open_session
from frn.heads.frn import FRNHead
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from frn.system.precision import keep_freed_memory

INITIAL = HeadParameters(alpha=0.0, beta=0.0, gamma=1.0)
"""Parameters of an untrained head, which every method uses."""
OURS = "frn, torch"


@dataclass(frozen=True, slots=True)
class HeadCase:
    """The timed case."""

    d: int
    shot: int
    r: int = 25
    way: int = 5
    backward: bool = False
    """Also compute gradients, and use 15 queries per class as in training instead of 16."""

    @property
    def shape(self) -> EpisodeShape:
        """Return the shape of the episode."""
        return EpisodeShape(way=self.way, shot=self.shot, queries=15 if self.backward else 16)

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return random maps of supports (way, shot, r, d) and of queries (queries, r, d)."""
        generator = torch.Generator().manual_seed(0)
        support = torch.randn(self.way, self.shot, self.r, self.d, generator=generator).relu()
        query = torch.randn(self.way * self.shape.queries, self.r, self.d, generator=generator).relu()
        return support, query


@dataclass(frozen=True, slots=True)
class HeadTiming:
    """Median milliseconds per episode for each method."""

    case: HeadCase
    milliseconds: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """Return the record that `head.py --json` prints."""
        ratios = {plain: self.times_as_fast(plain) for plain in PLAIN}
        return {**asdict(self.case), "milliseconds": self.milliseconds, "times_as_fast": ratios}

    def times_as_fast(self, plain: str) -> dict[str, float]:
        """Return how many times as fast each method is as one of the `PLAIN` listings."""
        return {name: self.milliseconds[plain] / value for name, value in self.milliseconds.items()}


def time_head(case: HeadCase, graph: bytes, *, rounds: int | None = None) -> HeadTiming:
    """Time every formulation on one episode of random maps, on one thread.

    `graph` contains the bytes of a `head.onnx` with the parameters `INITIAL`; `rounds` is passed to `take_turns`.
    """
    keep_freed_memory()  # as in training and evaluation, so that the times do not include the allocation of memory
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


def main(
    d: Annotated[list[int] | None, typer.Option(min=1, help="Channels.", show_default="64 and 640")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1, 5 and 20")] = None,
    r: Annotated[list[int] | None, typer.Option(min=1, help="Locations of a map.", show_default="25")] = None,
    way: Annotated[list[int] | None, typer.Option(min=2, help="Classes.", show_default="5")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="With gradients, as in training.")] = False,
    rounds: AnyRounds = None,
    as_json: AsJson = False,
) -> None:
    """Compare the closed-form head with the paper's listings: 16 queries per class, 15 in training, one thread."""
    with user_errors():
        graph = head_graph(INITIAL).SerializeToString()
        cases = [
            HeadCase(*sizes, backward=backward)
            for sizes in product(d or (64, 640), shot or (1, 5, 20), r or (25,), way or (5,))
        ]
        timings = [time_head(case, graph, rounds=rounds) for case in cases]
    if as_json:
        print_json([timing.as_json() for timing in timings])
        return
    print_table(
        ("episode", "formulation", "ms", *(f"x {plain}" for plain in PLAIN)),
        (
            (
                f"d = {t.case.d}, r = {t.case.r}, {t.case.shape}",
                name,
                f"{ms:.2f}",
                *(f"{t.times_as_fast(plain)[name]:.1f}" for plain in PLAIN),
            )
            for t in timings
            for name, ms in t.milliseconds.items()
        ),
    )
    stdout().print("x: how many times as fast as that plain formulation; left to right: Eq. 8 without a d x d matrix")


if __name__ == "__main__":
    run(main)
