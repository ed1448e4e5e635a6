"""Number formats, threads and memory settings for fast arithmetic on this machine."""

import ctypes
import functools
import sys
from contextlib import AbstractContextManager
from typing import Literal

import torch

from frn.errors import FrnError
from frn.system.hardware import own_cores

Precision = Literal["fp32", "bf16"]


def choose_device(name: str) -> torch.device:
    """Resolve "auto", "cpu" or "cuda".

    Raises FrnError if CUDA is requested but not available.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise FrnError("--device cuda: no CUDA device is available. Use --device cpu or auto.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def choose_precision(name: str, device: torch.device) -> Precision:
    """Resolve "auto", "fp32" or "bf16"; "auto" chooses bf16 if the hardware multiplies it natively."""
    if name == "auto":
        return "bf16" if has_native_bf16(device.type) else "fp32"
    return "bf16" if name == "bf16" else "fp32"


@functools.cache
def has_native_bf16(device: str) -> bool:
    """Return whether bf16 products run in hardware (AMX, AVX512-BF16, CUDA since Ampere)."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if hasattr(torch.cpu, "get_capabilities"):  # torch 2.15
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def autocast(device: torch.device | str, precision: Precision) -> AbstractContextManager[object]:
    """Return an autocast context for bf16 convolutions, or an empty one; heads turn autocast off themselves."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bf16")


def keep_freed_memory() -> None:
    """Make glibc keep freed memory instead of returning it to the system.

    Every training step frees and allocates the same hundreds of megabytes; returning them costs a page fault per 4 KiB
    and half of the step's time on a CPU. With other C libraries or systems this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, -1)  # never trim: a step of large images uses more than 2 GiB


def seed_torch(seed: int) -> None:
    """Seed torch's random numbers with a seed of any size: torch accepts 64 bits, numpy any number."""
    torch.manual_seed(seed % (1 << 64))


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads; by default this process's share of the cores under torchrun."""
    torch.set_num_threads(threads or own_cores())
