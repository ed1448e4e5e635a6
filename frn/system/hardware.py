"""The processor, its cores, and the threads and processes that share them. Free of torch and numpy."""

import os
import platform
from contextlib import suppress
from pathlib import Path

from frn.errors import FrnError

OPENBLAS_THREADS = "OPENBLAS_NUM_THREADS"


def leave_threads_to_networks() -> None:
    """Have numpy's OpenBLAS start no threads beside torch's and onnxruntime's: after a product they wait by spinning.

    It reads this when it is loaded: call it before.
    """
    os.environ.setdefault(OPENBLAS_THREADS, "1")


def processor() -> str:
    """Name of the processor."""
    with suppress(OSError):  # only Linux has the file
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """Processor cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def own_cores() -> int:
    """Its share of them, where torchrun has started several processes here."""
    return max(1, cores() // max(1, _number("LOCAL_WORLD_SIZE")))


def world() -> int:
    """Processes that torchrun has started to work together; 1 without it. FrnError if their number is invalid."""
    return _number("WORLD_SIZE") if _by_torchrun() else 1


def own_rank() -> int:
    """Which of them this process is, known before they have met; 0 if it is the only one."""
    return _number("RANK") if world() > 1 else 0


def is_first() -> bool:
    """Return whether this process is rank 0."""
    return own_rank() == 0


def _by_torchrun() -> bool:
    """Whether torchrun started this process: schedulers also set some of these variables and start one program."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def _number(name: str) -> int:
    said = os.environ.get(name, "1")
    try:
        return int(said)
    except ValueError as error:
        raise FrnError(
            f"{name} is {said!r}; torchrun sets it to a number. Start with torchrun, or unset it."
        ) from error
