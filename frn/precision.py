"""Number formats, threads and memory: what makes the same arithmetic fast on this machine."""

import ctypes
import functools
import os
import sys
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
import torch

from frn.errors import FrnError
from frn.machine import OPENBLAS_THREADS

Precision = Literal["fp32", "bf16"]

SMALL, SMALL_ALONE = 1 << 18, 1 << 24
"""Multiplications of two matrices up to which OpenBLAS starts no threads; and where it was told to have one only."""
FEW_THREADS = 2
"""Up to so many, one thread of OpenBLAS is not slower than all of torch's."""


def choose_device(name: str) -> torch.device:
    """Resolve "auto", "cpu" or "cuda".

    Raises:
        FrnError: if CUDA is asked for and is not there.
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
    """Whether bf16 products run in hardware (AMX, AVX512-BF16, CUDA from Ampere on)."""
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


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A b^T of matrices (n, d) and (m, d), by the fastest kernel at hand.

    torch multiplies float32 with MKL, which reaches less than half of an AMD processor's speed; oneDNN, which torch
    has for its layers, reaches it everywhere, but has no gradient here.
    """
    wants_gradient = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if a.is_cpu and a.dtype == torch.float32 and not wants_gradient and _has_onednn():
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
        return result
    return a @ b.mT


def small_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A_i B_i of stacks of matrices, (..., n, k) and (..., k, m), by the fastest kernel at hand if they are small.

    Here, too, torch has MKL alone, and on an AMD processor numpy's OpenBLAS takes half of its time on one thread. But
    that has no gradient, does not share the stack among many threads, and starts its own for matrices of some size,
    which then stand in each other's way.
    """
    wants_gradient = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    n, k, m = *a.shape[-2:], b.shape[-1]
    if a.is_cpu and not wants_gradient and n * k * m <= _small() and torch.get_num_threads() <= FEW_THREADS:
        result = a.new_empty(*a.shape[:-1], m)  # begins on a cache line, which numpy's own need not
        np.matmul(a.detach().numpy(), b.detach().numpy(), out=result.numpy())
        return result
    return a @ b


@functools.cache
def _small() -> int:
    return SMALL_ALONE if os.environ.get(OPENBLAS_THREADS) == "1" else SMALL


@functools.cache
def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


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
        mallopt(trim_threshold, 2**31 - 1)


def set_threads(threads: int | None) -> None:
    """Use this many processor threads; by default, all cores this process may run on."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(threads or allowed)
