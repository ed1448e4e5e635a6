"""Fair timing: contestants take turns in one process and on one thread, and the median of each counts."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

import torch

LEAST_ROUNDS, LEAST_SECONDS = 15, 3.0
"""What a contest takes by itself: a median of short times needs many."""
SETTLING_SECONDS = 0.01
"""What a contestant runs untimed in its turn: after four or five short runs caches and memory are its own again."""


def take_turns(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int | None, gradients: bool = False
) -> dict[str, float]:
    """Median milliseconds of each contestant.

    Args:
        contestants: what to run, by name.
        rounds: how often each is timed, in turn, so that a slow moment of the machine falls on all. In its turn each
            runs for `SETTLING_SECONDS`, once at least, and only the run after that counts: as in an evaluation, where
            a head is followed by itself. None: `LEAST_ROUNDS`, and on until `LEAST_SECONDS` have passed.
        gradients: whether contestants may ask for some.
    """
    milliseconds: dict[str, list[float]] = {name: [] for name in contestants}
    turns = 0
    with _one_thread(), torch.inference_mode(not gradients):
        deadline = time.perf_counter() + (0 if rounds else LEAST_SECONDS)
        while turns < (rounds or LEAST_ROUNDS) or time.perf_counter() < deadline:
            for name, run in contestants.items():
                settled = time.perf_counter() + SETTLING_SECONDS
                run()
                while time.perf_counter() < settled:
                    run()
                began = time.perf_counter()
                run()
                milliseconds[name].append(1000 * (time.perf_counter() - began))
            turns += 1
    return {name: median(times) for name, times in milliseconds.items()}


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
