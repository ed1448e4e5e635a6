"""FRN beside DeepEMD (SM, Speed comparison): one episode from given feature maps, in training and in testing."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from frn.bench.head import EQ_8, EQ_10, plain_error
from frn.bench.timing import take_turns
from frn.episodes import EpisodeShape
from frn.heads.deepemd import DeepEMDHead, Solver
from frn.heads.frn import FRNHead

Logits = Callable[[Tensor, Tensor], Tensor]

POT, OPENCV, OURS = "DeepEMD, POT", "DeepEMD, OpenCV", "frn, torch"
QUERIES = {"train": 15, "test": 16}
"""Query images per class, as in the supplement."""
PUBLISHED = {
    ("train", 1): {POT: "26,000", EQ_10: "281", EQ_8: "279"},
    ("train", 5): {POT: "> 990,000", EQ_10: "357", EQ_8: "346"},
    ("test", 1): {POT: "23,275", OPENCV: "178", EQ_10: "73", EQ_8: "63"},
    ("test", 5): {POT: "> 800,000", OPENCV: "18,292", EQ_10: "88", EQ_8: "79"},
}
"""The paper's milliseconds per episode, ResNet-12 included, on a GPU; its differentiable solver is qpth, not POT."""


@dataclass(frozen=True, slots=True)
class EmdTiming:
    """Median milliseconds per episode of each head."""

    phase: str
    shape: EpisodeShape
    milliseconds: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """What `frn bench emd --json` says of it."""
        known = {"milliseconds": self.milliseconds, "published": self.published}
        return {"phase": self.phase, "shot": self.shape.shot, **known}

    @property
    def published(self) -> dict[str, str]:
        """What the paper has for this phase and shot, if it has."""
        return PUBLISHED.get((self.phase, self.shape.shot), {})


def time_emd(phase: str, shot: int, *, d: int, r: int, rounds: int, sfc_passes: int) -> EmdTiming:
    """Time each head on one episode of random maps (r, d), on one thread.

    In testing that is the logits; in training, also the loss and its gradients. DeepEMD's OpenCV solver has no gradient
    through the weights, so only testing has it, as in the paper. In testing with several shots both fit the SFC.
    FrnError if a solver of the extra `emd` is not installed.
    """
    shape = EpisodeShape(way=5, shot=shot, queries=QUERIES[phase])
    generator = torch.Generator().manual_seed(0)
    support = torch.randn(shape.way, shot, r, d, generator=generator).relu()
    query = torch.randn(shape.way * shape.queries, r, d, generator=generator).relu()
    train = phase == "train"
    solvers: dict[str, Solver] = {POT: "pot"} if train else {POT: "pot", OPENCV: "opencv"}
    heads: dict[str, Logits] = {
        **{name: DeepEMDHead(solver=solver, sfc_passes=sfc_passes) for name, solver in solvers.items()},
        EQ_10: lambda support, query: -plain_error(support, query, EQ_10),
        EQ_8: lambda support, query: -plain_error(support, query, EQ_8),
        OURS: FRNHead(),
    }
    target = torch.arange(shape.way).repeat_interleave(shape.queries)

    def learn(head: Logits) -> None:
        with torch.enable_grad():
            leaves = support.clone().requires_grad_(), query.clone().requires_grad_()
            F.cross_entropy(head(*leaves), target).backward()

    def contestant(head: Logits) -> Callable[[], object]:
        return (lambda: learn(head)) if train else (lambda: head(support, query))

    contestants = {name: contestant(head) for name, head in heads.items()}
    return EmdTiming(phase, shape, take_turns(contestants, rounds=rounds, gradients=train))
