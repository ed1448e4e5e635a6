"""Compare the speed of FRN and DeepEMD on one episode, in training and testing (supplement, Speed comparison)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
import typer
from bench import AsJson, run
from bench.plain import EQ_8, EQ_10, plain_error
from bench.timing import take_turns
from torch import Tensor, nn

from frn.backbones import build_backbone
from frn.cli.shell.console import print_json, print_table, stdout, user_errors
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.heads.deepemd import DeepEMDHead, import_solver
from frn.heads.frn import FRNHead

Logits = Callable[[Tensor, Tensor], Tensor]

POT, OURS = "DeepEMD, POT", "frn, torch"
QUERIES = {"train": 15, "test": 16}
"""Query images per class, as in the supplement."""
PUBLISHED = {
    ("train", 1): {POT: "26,000", EQ_10: "281", EQ_8: "279"},
    ("train", 5): {POT: "> 990,000", EQ_10: "357", EQ_8: "346"},
    ("test", 1): {POT: "23,275", EQ_10: "73", EQ_8: "63"},
    ("test", 5): {POT: "> 800,000", EQ_10: "88", EQ_8: "79"},
}
"""The paper's milliseconds per episode on a GPU, including ResNet-12. The paper uses the solver qpth instead of POT."""


@dataclass(frozen=True, slots=True)
class EmdTiming:
    """Median milliseconds per episode of each head."""

    phase: str
    shape: EpisodeShape
    whole: bool
    """Whether the times include ResNet-12."""
    milliseconds: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """Return the record that `emd.py --json` prints."""
        known = {"milliseconds": self.milliseconds, "published": self.published}
        return {"phase": self.phase, "shot": self.shape.shot, "whole": self.whole, **known}

    @property
    def published(self) -> dict[str, str]:
        """Return the paper's value for this phase and number of shots, or None."""
        return PUBLISHED.get((self.phase, self.shape.shot), {})


@dataclass(frozen=True, kw_only=True, slots=True)
class Maps:
    """Random feature maps, to time the heads alone."""

    d: int = 640
    r: int = 25

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Return inputs for a number of images."""
        return torch.randn(count, self.r, self.d, generator=generator).relu()

    def network(self) -> nn.Module:
        """Return the function from inputs to feature maps (b, r, d)."""
        return nn.Identity()


@dataclass(frozen=True, kw_only=True, slots=True)
class Images:
    """Random images, to time whole episodes with ResNet-12."""

    size: int = 84

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Return inputs for a number of images."""
        return torch.rand(count, 3, self.size, self.size, generator=generator)

    def network(self) -> nn.Module:
        """Return the function from inputs to feature maps (b, r, d)."""
        return _Mapped(build_backbone("resnet12"))


class _Mapped(nn.Module):
    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.backbone(images.contiguous(memory_format=torch.channels_last))
        return maps.flatten(2).mT


def time_emd(phase: str, shot: int, *, inputs: Maps | Images, rounds: int, sfc_passes: int) -> EmdTiming:
    """Time each head on one episode, on one thread.

    In testing, a head computes the logits. In training, the loss and its gradients are computed too. Raises
    FrnError if DeepEMD's solver is not installed.
    """
    shape = EpisodeShape(way=5, shot=shot, queries=QUERIES[phase])
    train = phase == "train"
    episode = inputs.draw(shape.way * shape.per_class, torch.Generator().manual_seed(0))
    network = inputs.network().train(train)
    heads: dict[str, Logits] = {
        POT: DeepEMDHead(sfc_passes=sfc_passes),
        EQ_10: lambda support, query: -plain_error(support, query, EQ_10),
        EQ_8: lambda support, query: -plain_error(support, query, EQ_8),
        OURS: FRNHead(),
    }
    target = torch.arange(shape.way).repeat_interleave(shape.queries)

    def score(head: Logits, images_of: Tensor) -> Tensor:
        maps = network(images_of).unflatten(0, (shape.way, shape.per_class))
        return head(maps[:, :shot].contiguous(), maps[:, shot:].flatten(0, 1))

    def learn(head: Logits) -> None:
        with torch.enable_grad():
            F.cross_entropy(score(head, episode.clone().requires_grad_()), target).backward()

    def contestant(head: Logits) -> Callable[[], object]:
        return (lambda: learn(head)) if train else (lambda: score(head, episode))

    contestants = {name: contestant(head) for name, head in heads.items()}
    milliseconds = take_turns(contestants, rounds=rounds, gradients=train)
    return EmdTiming(phase, shape, isinstance(inputs, Images), milliseconds)


Phase = Literal["train", "test"]


def main(
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1 and 5")] = None,
    phase: Annotated[Phase | None, typer.Option(help="One of both.", show_default=False)] = None,
    d: Annotated[int, typer.Option(min=1, help="Channels.")] = 640,
    r: Annotated[int, typer.Option(min=1, help="Locations of a map.")] = 25,
    whole: Annotated[bool, typer.Option("--whole", help="From images of 84 x 84 on, ResNet-12 included.")] = False,
    sfc_passes: Annotated[int, typer.Option(min=1, help="Of DeepEMD's fit to several shots; its authors' 100.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each contestant.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Compare the speed of FRN and DeepEMD: 5-way, 15 queries in training and 16 in testing, one thread.

    By default only the heads are timed, on random feature maps. With `--whole`, whole episodes are timed as in the
    paper. DeepEMD's solver needs `pip install '.[emd]'`.
    """
    with user_errors():
        if whole and (d, r) != (640, 25):
            raise FrnError("ResNet-12 makes maps of 640 channels at 25 locations. Leave --whole out for others.")
        inputs = Images() if whole else Maps(d=d, r=r)
        phases: tuple[Phase, ...] = (phase,) if phase else ("train", "test")
        import_solver()  # report a missing package before timing for minutes
        cases = product(phases, shot or (1, 5))
        timings = [time_emd(name, k, inputs=inputs, rounds=rounds, sfc_passes=sfc_passes) for name, k in cases]
    if as_json:
        print_json([timing.as_json() for timing in timings])
        return
    print_table(
        ("phase", "episode", "head", "ms", "x frn, torch", "published ms"),
        (
            (t.phase, str(t.shape), name, f"{ms:,.1f}", f"{ms / t.milliseconds[OURS]:,.1f}", t.published.get(name, ""))
            for t in timings
            for name, ms in t.milliseconds.items()
        ),
    )
    here = "with ResNet-12" if whole else "the heads alone"
    stdout().print(
        f"{here}; x: how many times as long. Published: on a GPU, with ResNet-12, and qpth in the place of POT"
    )


if __name__ == "__main__":
    run(main)
