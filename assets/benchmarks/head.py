"""Compare the speed of `frn`'s closed form, the paper's listings (Sec. 3.2 and supplement) and DeepEMD on one episode.

The script times testing, or training with gradients for maps, alpha and beta.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from bench import AnyRounds, AsJson, run, show
from bench.plain import EQ_8, EQ_10, PLAIN, plain_error
from bench.timing import take_turns
from frn_export.graphs.head import head_graph
from torch import Tensor

from frn.backbones import build_backbone
from frn.cli.shell.console import user_errors
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.features.onnx_runtime import open_session
from frn.heads.deepemd import DeepEMDHead, import_solver
from frn.heads.frn import FRNHead
from frn.ridge.enrolment import ClassScorer, enroll
from frn.ridge.parameters import HeadParameters
from frn.system.precision import keep_freed_memory

INITIAL = HeadParameters(alpha=0.0, beta=0.0, gamma=1.0)  # parameters of an untrained head, which every method uses
OURS, POT = "frn, torch", "DeepEMD, POT"
PUBLISHED = {
    (True, 1): {POT: "26,000", EQ_10: "281", EQ_8: "279"},
    (True, 5): {POT: "> 990,000", EQ_10: "357", EQ_8: "346"},
    (False, 1): {POT: "23,275", EQ_10: "73", EQ_8: "63"},
    (False, 5): {POT: "> 800,000", EQ_10: "88", EQ_8: "79"},
}
"""The paper's milliseconds in training or not and by shot, on a GPU, with ResNet-12 and with qpth instead of POT."""

Maps = tuple[Tensor, Tensor]  # maps of supports (way, shot, r, d) and of queries (queries, r, d)


def time_heads(
    shape: EpisodeShape,
    d: int,
    r: int,
    *,
    backward: bool = False,
    sfc_passes: int | None = None,
    whole: bool = False,
    rounds: int | None = None,
) -> dict[str, float]:
    """Return the median milliseconds of each head on one episode of random maps, on one thread.

    DeepEMD takes part if it has a number of `sfc_passes`. A `whole` episode starts from images and includes ResNet-12.
    """
    keep_freed_memory()  # as in training and evaluation, so that the times do not include the allocation of memory
    head, generator = FRNHead(), torch.Generator().manual_seed(0)
    heads: dict[str, Callable[[Tensor, Tensor], Tensor]] = {}
    if sfc_passes:
        heads[POT] = DeepEMDHead(sfc_passes=sfc_passes)
    heads |= {name: partial(plain_error, formulation=name, head=head if backward else None) for name in PLAIN}
    heads[OURS] = head.class_error
    maps = torch.randn(shape.way, shape.per_class, r, d, generator=generator).relu()
    support, query = maps[:, : shape.shot].contiguous(), maps[:, shape.shot :].flatten(0, 1)
    learned: list[Tensor] = [*head.parameters()]
    if whole:
        images = torch.rand(shape.way * shape.per_class, 3, 84, 84, generator=generator).requires_grad_(backward)
        network = build_backbone("resnet12").train(backward)
        learned += [images, *network.parameters()]

        def episode() -> Maps:
            maps = network(images.contiguous(memory_format=torch.channels_last)).flatten(2).mT
            maps = maps.unflatten(0, (shape.way, shape.per_class))
            return maps[:, : shape.shot].contiguous(), maps[:, shape.shot :].flatten(0, 1)
    else:
        learned += [support.requires_grad_(backward), query.requires_grad_(backward)]

        def episode() -> Maps:
            return support, query

    target = torch.arange(shape.way).repeat_interleave(shape.queries)

    def take(name: str) -> object:
        scores = heads[name](*episode())
        return torch.autograd.grad(F.cross_entropy(scores, target), learned, allow_unused=True) if backward else scores

    contestants: dict[str, Callable[[], object]] = {name: partial(take, name) for name in heads}
    if not backward and not whole:
        session = open_session(head_graph(INITIAL).SerializeToString(), "head.onnx", device="cpu", threads=1)
        arrays, queries = support.numpy(), query.numpy()
        inputs = {"support": arrays, "shots": np.full(shape.way, shape.shot), "query": queries}
        contestants["frn, numpy"] = lambda: ClassScorer([enroll(s, INITIAL) for s in arrays]).class_error(queries)
        contestants["frn, onnx"] = lambda: session.run(["class_error"], inputs)
    return take_turns(contestants, rounds=rounds, gradients=backward)


def main(
    d: Annotated[list[int] | None, typer.Option(min=1, help="Channels.", show_default="64 and 640")] = None,
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1, 5 and 20")] = None,
    r: Annotated[list[int] | None, typer.Option(min=1, help="Locations of a map.", show_default="25")] = None,
    way: Annotated[list[int] | None, typer.Option(min=2, help="Classes.", show_default="5")] = None,
    backward: Annotated[bool, typer.Option("--backward", help="With gradients, as in training.")] = False,
    deepemd: Annotated[bool, typer.Option("--deepemd", help="Also time DeepEMD, whose solver needs POT.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="From images of 84 x 84 on, ResNet-12 included.")] = False,
    sfc_passes: Annotated[int, typer.Option(min=1, help="Of DeepEMD's fit to several shots; its authors' 100.")] = 100,
    rounds: AnyRounds = None,
    as_json: AsJson = False,
) -> None:
    """Compare the closed-form head with the paper's listings: 16 queries per class, 15 in training, one thread."""
    with user_errors():
        channels, locations = d or ((640,) if whole else (64, 640)), r or (25,)
        if whole and {*channels, *locations} != {640, 25}:
            raise FrnError("ResNet-12 makes maps of 640 channels at 25 locations. Leave --whole out for others.")
        if deepemd:
            import_solver()  # report a missing package before timing for minutes
        rows: list[dict[str, object]] = []
        for channel, k, location, classes in product(channels, shot or (1, 5, 20), locations, way or (5,)):
            shape = EpisodeShape(way=classes, shot=k, queries=15 if backward else 16)
            passes = sfc_passes if deepemd else None
            milliseconds = time_heads(
                shape, channel, location, backward=backward, sfc_passes=passes, whole=whole, rounds=rounds
            )
            for name, ms in milliseconds.items():
                row = {"episode": f"d = {channel}, r = {location}, {shape}", "head": name, "ms": ms}
                row |= {f"x {plain}": milliseconds[plain] / ms for plain in PLAIN}
                rows.append(row | ({"published ms": PUBLISHED.get((backward, k), {}).get(name)} if deepemd else {}))
    show(rows, as_json, "x: how many times as fast as that listing; left to right: Eq. 8 without a d x d matrix")


if __name__ == "__main__":
    run(main)
