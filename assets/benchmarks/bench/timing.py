"""Fair timing: the candidates run in turn, in one process on one thread, and their median times are compared."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

import torch
from torch.utils.flop_counter import FlopCounterMode

from frn.backbones import build_backbone

MIN_ROUNDS, MIN_SECONDS = 15, 3.0
"""Minimum number of turns and minimum time of a comparison; the median of short times needs many samples."""
SETTLING_SECONDS = TIMED_SECONDS = 0.01
"""Untimed and timed part of a turn; the untimed runs fill caches and memory before the timing starts."""


def take_turns(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int | None, gradients: bool = False
) -> dict[str, float]:
    """Return the median time of each candidate in milliseconds.

    Args:
        contestants: the functions to compare, by name.
        rounds: number of turns of each function. The functions alternate, so that a slow moment of the machine affects
            all of them. In its turn, a function first runs untimed for `SETTLING_SECONDS`, as in an evaluation that
            repeats one head. After that, the function is timed for `TIMED_SECONDS`, or at least once. With None there
            are at least `MIN_ROUNDS` turns, and more until `MIN_SECONDS` have passed.
        gradients: whether the functions may compute gradients.
    """
    milliseconds: dict[str, list[float]] = {name: [] for name in contestants}
    turns = 0
    with _one_thread(), torch.inference_mode(not gradients):
        deadline = time.perf_counter() + (0 if rounds else MIN_SECONDS)
        while turns < (rounds or MIN_ROUNDS) or time.perf_counter() < deadline:
            for name, run in contestants.items():
                for _ in _timed(run, SETTLING_SECONDS):
                    pass
                milliseconds[name].extend(_timed(run, TIMED_SECONDS))
            turns += 1
    return {name: median(times) for name, times in milliseconds.items()}


def _timed(run: Callable[[], object], seconds: float) -> Iterator[float]:
    """Return the milliseconds of each run, repeated until `seconds` have passed."""
    ended, end = 0.0, time.perf_counter() + seconds
    while ended < end:
        began = time.perf_counter()
        run()
        ended = time.perf_counter()
        yield 1000 * (ended - began)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


SIDES = {"cpu": (512, 1024, 2048), "cuda": (4096, 8192)}
"""Sizes of the square matrices that are multiplied; some fit into the caches and some do not."""
ROUNDS = 5


def peak_rate(device: torch.device, dtype: torch.dtype, sides: Sequence[int] | None = None) -> float:
    """Return the FLOP/s of the fastest of several square matrix products, counting a multiply-add as two operations."""
    return max(_rate(device, dtype, side) for side in sides or SIDES[device.type])


def _rate(device: torch.device, dtype: torch.dtype, side: int) -> float:
    a, b = torch.randn(2, side, side, device=device).to(dtype)
    out = torch.empty_like(a)
    seconds = median(timed(lambda: torch.mm(a, b, out=out), device) for _ in range(ROUNDS + 1))
    return 2 * side**3 / seconds


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds until a function has finished, including its work on the device."""
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def step_operations(backbone: str, images: int, size: int = 84) -> int:
    """Count the operations in a network's convolutions in a training step, forward and backward, without running it."""
    with torch.device("meta"):
        network, batch = build_backbone(backbone), torch.empty(images, 3, size, size)
    with FlopCounterMode(display=False) as counter:
        network(batch).sum().backward()
    return int(counter.get_total_flops())
