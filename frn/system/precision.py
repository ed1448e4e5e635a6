"""Number formats, threads and memory: what makes the same arithmetic fast on this machine."""

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

    FrnError if CUDA is asked for and is not there.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise FrnError("--device cuda: no CUDA device can be used here. Use --device cpu or auto.")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def choose_precision(name: str, device: torch.device) -> Precision:
    """Resolve "auto", "fp32" or "bf16": bf16 where the processor multiplies it natively."""
    if name == "auto":
        return "bf16" if has_native_bf16(device.type) else "fp32"
    return "bf16" if name == "bf16" else "fp32"


@functools.cache
def has_native_bf16(device: str) -> bool:
    """Return whether bf16 products run in hardware (AMX, AVX512-BF16, CUDA from Ampere on)."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if hasattr(torch.cpu, "get_capabilities"):  # torch 2.15
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def autocast(device: torch.device | str, precision: Precision) -> AbstractContextManager[object]:
    """bf16 for convolutions, or nothing. Heads leave it again by themselves."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bf16")


def keep_freed_memory() -> None:
    """Let glibc keep what is freed instead of returning it to the system.

    Every training step frees and takes the same hundreds of megabytes; handing them back costs a page fault per
    4 KiB and half of the step's time on a processor. Elsewhere (other C libraries, other systems) nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(mmap_max, 0)
        mallopt(trim_threshold, -1)  # never: the memory of a step of large images is more than 2 GiB


def seed_torch(seed: int) -> None:
    """Let torch's random numbers follow a seed of any size: torch takes 64 bits of it, numpy all."""
    torch.manual_seed(seed % (1 << 64))


def set_threads(threads: int | None) -> None:
    """Use this many processor threads; by default its share of the cores, where torchrun started several processes."""
    torch.set_num_threads(threads or own_cores())
