"""Compare the peak memory of a training step of CTX and FRN, each in its own process (Table 15 of the supplement)."""

import multiprocessing
import re
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
import typer
from bench import AsJson, run
from bench.plain import EQ_8, EQ_10, plain_error
from torch import Tensor, nn

from frn.backbones import build_backbone
from frn.cli.shell.console import print_json, print_table, progress_bar, stdout, user_errors
from frn.cli.shell.options import Device as DeviceOption
from frn.errors import FrnError
from frn.heads.ctx import CTXHead
from frn.heads.frn import FRNHead
from frn.system.precision import choose_device

Part = Literal["step", "head"]
Device = Literal["cpu", "cuda"]

CONTESTANTS = ("ctx", EQ_8, EQ_10, "frn, torch")
WAYS = {1: 30, 5: 20}
"""Number of classes in the supplement's training episodes for Conv-4, by number of shots."""
QUERIES = 15
PUBLISHED = {
    "ctx": {(25, 1): 6225, (25, 5): 5449, (100, 1): 8979, (100, 5): 9693},
    EQ_8: {(25, 1): 6305, (25, 5): 5317, (100, 1): 7125, (100, 5): 6767},
    EQ_10: {(25, 1): 6305, (25, 5): 6529, (100, 1): 7125, (100, 5): 6727},
}
"""Megabytes reported in the paper by method, r and shot, for Conv-4 on a GPU, with the network and the framework."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryCase:
    """One training episode."""

    part: Part
    """Whether to measure the whole "step" of Conv-4 on images, or the "head" alone on feature maps."""
    r: int
    shot: int
    d: int = 64
    way: int | None = None
    """Number of classes; None means the number in the supplement."""
    queries: int = QUERIES

    @property
    def classes(self) -> int:
        """Return the number of classes of the episode."""
        return self.way or WAYS.get(self.shot, 20)


def measure_memory(case: MemoryCase, contestant: str, device: Device = "cpu") -> float:
    """Return the peak megabytes (10^6 bytes) of one forward and backward pass, minus the memory used before.

    On a CPU this is the peak resident size of a fresh process, minus its size before the episode. On a GPU, the peak of
    torch's memory is measured.
    """
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(take_step, case, contestant, device).result()


def take_step(case: MemoryCase, contestant: str, device: Device) -> float:
    """Take the training step in this process and return its peak memory, as in `measure_memory`."""
    torch.set_num_threads(1)
    # A tiny first step makes the libraries load what they need on their first call, which can be tens of megabytes.
    _step(replace(case, r=min(case.r, 25), shot=1, way=2, queries=1), contestant, device)
    before = _resident(peak=False) if device == "cpu" else torch.cuda.memory_allocated()
    _step(case, contestant, device)
    peak = _resident(peak=True) if device == "cpu" else torch.cuda.max_memory_allocated()
    return (peak - before) / 1e6


def _step(case: MemoryCase, contestant: str, device: Device) -> None:
    generator = torch.Generator().manual_seed(0)
    way, per_class = case.classes, case.shot + case.queries
    head = _head(contestant, case.d).to(device)
    network = nn.Identity() if case.part == "head" else build_backbone("conv4", last_pool=case.r <= 25)
    # Conv-4 turns 84 x 84 pixels into 5 x 5 maps, or 10 x 10 without its last pooling.
    size = (case.r, case.d) if case.part == "head" else (3, 84, 84)
    inputs = torch.rand(way * per_class, *size, generator=generator).to(device).requires_grad_(case.part == "head")
    network.to(device).train()
    target = torch.arange(way, device=device).repeat_interleave(case.queries)
    maps = network(inputs)
    maps = maps if case.part == "head" else maps.flatten(2).mT
    assert maps.shape[1:] == (case.r, case.d)
    episode = maps.unflatten(0, (way, per_class))
    logits = head(episode[:, : case.shot], episode[:, case.shot :].flatten(0, 1))
    F.cross_entropy(logits, target).backward()


class _Plain(nn.Module):
    """A code listing from the paper, used as a head."""

    def __init__(self, formulation: str) -> None:
        super().__init__()
        self.formulation = formulation

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        return -plain_error(support, query, self.formulation)


def _head(contestant: str, d: int) -> nn.Module:
    if contestant == "ctx":
        return CTXHead(d)
    return _Plain(contestant) if contestant in (EQ_8, EQ_10) else FRNHead()


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
    device: DeviceOption = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure the peak memory of a training step of CTX and FRN with Conv-4 at 84 x 84, each in a separate process.

    With 10 x 10 maps, a step takes up to 8 GB.
    """
    with user_errors():
        where = choose_device(device).type
        sides = side or (5, 10)
        if not head_only and (d != 64 or set(sides) - {5, 10}):
            raise FrnError("Conv-4 makes maps of 64 channels, 5 x 5 or 10 x 10. Add --head-only for others.")
        cases = [
            MemoryCase(part="head" if head_only else "step", r=n * n, shot=k, d=d, way=way, queries=queries)
            for n in sides
            for k in shot or (1, 5)
        ]
        published = PUBLISHED if not head_only and way is None and queries == 15 else {}
        measured, rows = [], []
        with progress_bar("measuring") as show:
            for c, name in product(cases, CONTESTANTS):
                megabytes = measure_memory(c, name, "cuda" if where == "cuda" else "cpu")
                paper = published.get(name, {}).get((c.r, c.shot))
                episode = {"part": c.part, "r": c.r, "d": c.d, "way": c.classes, "shot": c.shot}
                measured.append({**episode, "head": name, "megabytes": megabytes, "published": paper})
                shape = f"{c.classes}-way {c.shot}-shot"
                rows.append((str(c.r), str(c.d), shape, name, f"{megabytes:,.0f}", f"{paper or ''}"))
                show(len(measured), len(cases) * len(CONTESTANTS))
    if as_json:
        print_json(measured)
        return
    print_table(("r", "d", "episode", "head", "MB", "published MB"), rows)
    what = "torch's peak on the GPU" if where == "cuda" else "peak of a fresh process, less its libraries"
    stdout().print(f"MB: {what}. Published: all that nvidia-smi saw")


if __name__ == "__main__":
    run(main)
