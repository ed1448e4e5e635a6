"""Compare the peak memory of a training step of CTX and FRN, each in its own process (Table 15 of the supplement)."""

import multiprocessing
import re
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from bench import AsJson, run, show
from bench.plain import EQ_8, EQ_10, plain_error
from torch import nn

from frn.backbones import build_backbone
from frn.cli.shell.console import progress_bar, user_errors
from frn.cli.shell.options import Device
from frn.episodes import EpisodeShape
from frn.errors import FrnError
from frn.heads.ctx import CTXHead
from frn.heads.frn import FRNHead
from frn.system.precision import choose_device

CONTESTANTS = ("ctx", EQ_8, EQ_10, "frn, torch")
WAYS = {1: 30, 5: 20}  # number of classes in the supplement's training episodes for Conv-4, by number of shots
PUBLISHED = {
    "ctx": {(25, 1): 6225, (25, 5): 5449, (100, 1): 8979, (100, 5): 9693},
    EQ_8: {(25, 1): 6305, (25, 5): 5317, (100, 1): 7125, (100, 5): 6767},
    EQ_10: {(25, 1): 6305, (25, 5): 6529, (100, 1): 7125, (100, 5): 6727},
}
"""Megabytes reported in the paper by method, r and shot, for Conv-4 on a GPU, with the network and the framework."""


def measure_memory(contestant: str, shape: EpisodeShape, r: int, d: int, *, whole: bool, device: str) -> float:
    """Return the peak megabytes (10^6 bytes) of one forward and backward pass, minus the memory used before.

    A `whole` step starts from images and includes Conv-4; otherwise it starts from maps. On a CPU this is the peak
    resident size of a fresh process, minus its size before the episode. On a GPU, the peak of torch's memory is
    measured.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
        return fresh.submit(_peak, contestant, shape, r, d, whole, device).result()


def _peak(contestant: str, shape: EpisodeShape, r: int, d: int, whole: bool, device: str) -> float:
    torch.set_num_threads(1)
    # A tiny first step makes the libraries load what they need on their first call, which can be tens of megabytes.
    take_step(contestant, replace(shape, way=2, shot=1, queries=1), min(r, 25), d, whole, device)
    before = _resident(peak=False) if device == "cpu" else torch.cuda.memory_allocated()
    take_step(contestant, shape, r, d, whole, device)
    peak = _resident(peak=True) if device == "cpu" else torch.cuda.max_memory_allocated()
    return (peak - before) / 1e6


def take_step(contestant: str, shape: EpisodeShape, r: int, d: int, whole: bool, device: str) -> torch.Tensor:
    """Take a training step in this process, and return the class errors or logits (queries, way)."""
    head = (CTXHead(d) if contestant == "ctx" else FRNHead()).to(device)
    # Conv-4 turns 84 x 84 pixels into 5 x 5 maps, or 10 x 10 without its last pooling.
    network = build_backbone("conv4", last_pool=r <= 25).to(device).train() if whole else nn.Identity()
    size = (3, 84, 84) if whole else (r, d)
    inputs = torch.rand(shape.way * shape.per_class, *size, generator=torch.Generator().manual_seed(0)).to(device)
    maps = network(inputs.requires_grad_(not whole))
    maps = maps.flatten(2).mT if whole else maps
    assert maps.shape[1:] == (r, d)
    episode = maps.unflatten(0, (shape.way, shape.per_class))
    support, query = episode[:, : shape.shot], episode[:, shape.shot :].flatten(0, 1)
    logits = -plain_error(support, query, contestant) if contestant in (EQ_8, EQ_10) else head(support, query)
    F.cross_entropy(logits, torch.arange(shape.way, device=device).repeat_interleave(shape.queries)).backward()
    return logits


def _resident(*, peak: bool) -> int:
    """Return the current or peak memory of this process, in bytes.

    Linux reports both values exactly; `getrusage` would include memory of the parent before the fork. Other systems
    report only the peak, so the peak is used for both values.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        match = re.search(rf"Vm{'HWM' if peak else 'RSS'}:\s+(\d+) kB", status.read_text(encoding="ascii"))
        assert match is not None
        return 1024 * int(match[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def main(
    shot: Annotated[list[int] | None, typer.Option(min=1, help="Support images.", show_default="1 and 5")] = None,
    side: Annotated[list[int] | None, typer.Option(help="Of the maps: 5 or 10.", show_default="5 and 10")] = None,
    head_only: Annotated[
        bool, typer.Option("--head-only", help="From feature maps on, without Conv-4; any side.")
    ] = False,
    d: Annotated[int, typer.Option(min=1, help="Channels, with --head-only.")] = 64,
    way: Annotated[int | None, typer.Option(min=2, help="Classes.", show_default="30 and 20, as in the paper")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Query images per class.")] = 15,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure the peak memory of a training step of CTX and FRN with Conv-4 at 84 x 84, each in a separate process.

    With 10 x 10 maps, a step takes up to 8 GB.
    """
    with user_errors():
        where, sides = choose_device(device).type, side or (5, 10)
        if not head_only and (d != 64 or set(sides) - {5, 10}):
            raise FrnError("Conv-4 makes maps of 64 channels, 5 x 5 or 10 x 10. Add --head-only for others.")
        published = PUBLISHED if not head_only and way is None and queries == 15 else {}
        cases = [*product(sides, shot or (1, 5), CONTESTANTS)]
        rows: list[dict[str, object]] = []
        with progress_bar("measuring") as progress:
            for n, k, name in cases:
                shape = EpisodeShape(way=way or WAYS.get(k, 20), shot=k, queries=queries)
                megabytes = measure_memory(name, shape, n * n, d, whole=not head_only, device=where)
                row = {"r": n * n, "d": d, "episode": str(shape), "head": name, "MB": megabytes}
                rows.append(row | {"published MB": published.get(name, {}).get((n * n, k))})
                progress(len(rows), len(cases))
    what = "torch's peak on the GPU" if where == "cuda" else "peak of a fresh process, less its libraries"
    show(rows, as_json, f"MB: {what}. Published: all that nvidia-smi saw")


if __name__ == "__main__":
    run(main)
