"""Matrix products of the closed form, with the fastest torch or numpy kernel on this processor."""

import functools
import os

import numpy as np
import torch
from torch import Tensor

from frn.system.hardware import OPENBLAS_THREADS, processor

SMALL, SMALL_SINGLE_THREADED = 1 << 18, 1 << 28
"""Maximum multiplications of a product for OpenBLAS: by default, and if OpenBLAS is limited to one thread."""
FEW_THREADS = 2
"""Number of torch threads up to which a single thread of OpenBLAS is not slower."""


def matmul_nt(a: Tensor, b: Tensor) -> Tensor:
    """Return A B^T of matrices (n, d) and (m, d).

    For float32, torch uses MKL, which reaches less than half of an AMD processor's speed. oneDNN, which torch uses for
    layers, reaches full speed there but has no gradient here.
    """
    if not transformed() and a.is_cpu and a.dtype == torch.float32 and not _wants_gradient(a, b) and _prefers_onednn():
        result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
        return result
    return a @ b.mT


def matmul_small(a: Tensor, b: Tensor) -> Tensor:
    """Return A_i B_i of stacks of matrices, (..., n, k) and (..., k, m), that may be small.

    Torch has only MKL for these; on an AMD processor numpy's OpenBLAS takes half the time on one thread. But OpenBLAS
    has no gradient and does not divide the stack among many threads. For larger matrices it starts its own threads,
    which then contend with each other.
    """
    if transformed():
        return a @ b
    n, k, m = *a.shape[-2:], b.shape[-1]
    if a.is_cpu and not _wants_gradient(a, b) and n * k * m <= _small() and torch.get_num_threads() <= FEW_THREADS:
        result = a.new_empty(*a.shape[:-1], m)  # the memory starts at a cache line; that of numpy may not
        np.matmul(a.detach().numpy(), b.detach().numpy(), out=result.numpy())
        return result
    return a @ b


def transformed() -> bool:
    """Return whether torch is compiling, exporting or tracing, or a `torch.func` transform is active.

    Only plain operations work then: values cannot be inspected, and kernels of other libraries cannot be called.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    # torch.autograd.Function makes the same check; it has no public name.
    active: bool = torch._C._are_functorch_transforms_active()
    return active


def _wants_gradient(a: Tensor, b: Tensor) -> bool:
    return torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)


@functools.cache
def _small() -> int:
    return SMALL_SINGLE_THREADED if os.environ.get(OPENBLAS_THREADS) == "1" else SMALL


@functools.cache
def _prefers_onednn() -> bool:
    there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return there and "Intel" not in processor()
