"""The processor, its cores, and the threads and processes that share them. Free of torch and numpy."""

import os
import platform
from contextlib import suppress
from pathlib import Path

OPENBLAS_THREADS = "OPENBLAS_NUM_THREADS"


def leave_threads_to_torch() -> None:
    """Have numpy's OpenBLAS start no threads beside torch's. It reads this when it is loaded: call it before."""
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
    return max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def world() -> int:
    """Processes that torchrun has started to work together; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process is rank 0 of them, or the only one; known before they have met."""
    return os.environ.get("RANK", "0") == "0"
