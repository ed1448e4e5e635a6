"""The processor, its cores, and the threads and processes that share them, without torch and numpy."""

import os
import platform
from contextlib import suppress
from pathlib import Path

from frn.errors import FrnError


def leave_threads_to_networks() -> None:
    """Limit numpy's OpenBLAS to one thread: its idle threads compete with those of torch and onnxruntime.

    OpenBLAS reads the setting on import, so call this first.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def processor() -> str:
    """Return the name of the processor."""
    with suppress(OSError):  # the file exists only on Linux
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_cores() -> int:
    """Return this process's share of the cores if torchrun started several processes here."""
    return max(1, cores() // max(1, _number("LOCAL_WORLD_SIZE")))


def world() -> int:
    """Return the number of processes that torchrun started together, or 1 without it.

    Schedulers also set some of torchrun's variables, but start a single program. Raises FrnError if the number is not
    valid.
    """
    by_torchrun = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    return _number("WORLD_SIZE") if by_torchrun else 1


def own_rank() -> int:
    """Return the rank of this process, known before the ranks connect; 0 if it is alone."""
    return _number("RANK") if world() > 1 else 0


def _number(name: str) -> int:
    said = os.environ.get(name, "1")
    try:
        return int(said)
    except ValueError as error:
        raise FrnError(
            f"{name} is {said!r}, but must be a number, as torchrun sets it. Use torchrun, or unset the variable."
        ) from error
