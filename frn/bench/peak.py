"""What this machine's matrix products reach, and what a network's convolutions need."""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from frn.backbones import build_backbone

SIDES = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192)}
"""Of square products: what fits the caches, and what does not."""
ROUNDS = 5


def peak_rate(device: torch.device, dtype: torch.dtype, sides: Sequence[int] | None = None) -> float:
    """Operations per second (two per multiplication) of the fastest of a few square products."""
    return max(_rate(device, dtype, side) for side in sides or SIDES[device.type])


def _rate(device: torch.device, dtype: torch.dtype, side: int) -> float:
    a, b = torch.randn(2, side, side, device=device).to(dtype)
    out = torch.empty_like(a)
    seconds = median(timed(lambda: torch.mm(a, b, out=out), device) for _ in range(ROUNDS + 1))
    return 2 * side**3 / seconds


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until it is done, on the device too."""
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def step_operations(backbone: str, images: int, size: int = 84) -> int:
    """Operations of a network's convolutions in a training step, forward and backward, counted without doing them."""
    with torch.device("meta"):
        network, batch = build_backbone(backbone), torch.empty(images, 3, size, size)
    with FlopCounterMode(display=False) as counter:
        network(batch).sum().backward()
    return int(counter.get_total_flops())
