"""Fair timing: contestants take turns in one process and on one thread, and the median of each counts."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

import torch

MIN_ROUNDS, MIN_SECONDS = 15, 3.0
"""What a contest takes by itself: a median of short times needs many."""
SETTLING_SECONDS = TIMED_SECONDS = 0.01
"""A turn, untimed and timed: after four or five short runs caches and memory are the contestant's own again."""


def take_turns(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int | None, gradients: bool = False
) -> dict[str, float]:
    """Median milliseconds of each contestant.

    Args:
        contestants: what to run, by name.
        rounds: how many turns each has, one after the other, so that a slow moment of the machine falls on all. In its
            turn each runs for `SETTLING_SECONDS` unseen, as in an evaluation, where a head is followed by itself, then
            for `TIMED_SECONDS`; once at least. None: `MIN_ROUNDS`, and on until `MIN_SECONDS` have passed.
        gradients: whether contestants may ask for some.
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
    """Milliseconds of one run after the other, until `seconds` have passed."""
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
