"""Fair timing: contestants take turns in one process, and the median of each counts."""

import time
from collections.abc import Callable, Mapping
from statistics import median


def take_turns(contestants: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Median seconds of each contestant.

    Args:
        contestants: what to run, by name. Each runs once before the clock starts.
        rounds: how often each is timed, in turn, so that a slow moment of the machine falls on all.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    for _ in range(rounds):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return {name: median(times) for name, times in seconds.items()}
