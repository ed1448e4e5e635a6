"""Peak memory of one training step, CTX beside FRN (SM, Memory comparisons), each in a process of its own."""

import multiprocessing
import re
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.backbones import build_backbone
from frn.bench.head import EQ_8, EQ_10, plain_error
from frn.heads.ctx import CTXHead
from frn.heads.frn import FRNHead

Part = Literal["step", "head"]
Device = Literal["cpu", "cuda"]

CONTESTANTS = ("ctx", EQ_8, EQ_10, "frn, torch")
WAYS = {1: 30, 5: 20}
"""Classes of the supplement's Conv-4 training episodes, by shot."""
QUERIES = 15
PUBLISHED = {
    "ctx": {(25, 1): 6225, (25, 5): 5449, (100, 1): 8979, (100, 5): 9693},
    EQ_8: {(25, 1): 6305, (25, 5): 5317, (100, 1): 7125, (100, 5): 6767},
    EQ_10: {(25, 1): 6305, (25, 5): 6529, (100, 1): 7125, (100, 5): 6727},
}
"""The paper's megabytes by contestant, and by r and shot: Conv-4 on a GPU, network and framework included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryCase:
    """One training episode."""

    part: Part
    """The whole "step" of Conv-4, from images on; or the "head" alone, from feature maps on."""
    r: int
    shot: int
    d: int = 64
    way: int | None = None
    """None: the supplement's."""
    queries: int = QUERIES

    @property
    def classes(self) -> int:
        """How many classes the episode has."""
        return self.way or WAYS.get(self.shot, 20)


def measure_memory(case: MemoryCase, contestant: str, device: Device = "cpu") -> float:
    """Megabytes (10^6 bytes) that one forward and backward pass takes at its peak, beyond what was there before.

    On a processor the peak resident size of a fresh process, less its size before the episode; on a GPU what torch
    holds there at its peak.
    """
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(take_step, case, contestant, device).result()


def take_step(case: MemoryCase, contestant: str, device: Device) -> float:
    """Take the step in this process, and say what it took at its peak: see `measure_memory`."""
    torch.set_num_threads(1)
    # A first step, of next to nothing, loads what libraries load when first called: tens of megabytes, now and then.
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
    # Conv-4 makes 5 x 5 maps of 84 x 84 pixels, and 10 x 10 without its last pooling.
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
    """A listing of the paper as a head."""

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
    """Bytes of memory that this process holds, or has held at most.

    Linux says both exactly (`getrusage` would count what the parent held before it became this process). Elsewhere only
    the peak is known, which does as well before the episode as after it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        found = re.search(rf"Vm{'HWM' if peak else 'RSS'}:\s+(\d+) kB", status.read_text(encoding="ascii"))
        assert found is not None
        return 1024 * int(found[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
