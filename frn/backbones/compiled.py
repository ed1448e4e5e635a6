"""Norm, sum, pooling and activation after a convolution in training, fused into one function with few memory passes.

On a processor these operations wait for memory, not for arithmetic: torch's separate functions read and write a map a
dozen times. Here y = act(pool(sum of s_i x_i + t)), with s_i and t from the moments of a batch. The loops below compute
y and its gradient in one pass each; `torch.compile` turns them into C++. Compilation needs a C++ compiler and takes
half a minute at first use. Sums are in float32, and only the results are rounded to the maps' number format; the plain
functions round after each operation.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from frn.errors import FrnError

ONE_PASS = {"realize_reads_threshold": 64, "realize_opcount_threshold": 1000}
"""Inductor options that fuse everything: intermediate memory traffic costs more than computing values twice."""
FEWEST = 64
"""Minimum values per channel. With fewer, float32 rounding can exceed the variance; one value has no variance."""
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Corners of a 2 x 2 window; in a tie, the first corner wins."""
NONE = 4
"""Corner of locations in the last row or column of an odd map, which are in no window."""


def compile_blocks(backbone: nn.Module) -> None:
    """Make the blocks of a backbone use compiled loops in training. Raises FrnError if it has no such blocks."""
    blocks: list[Any] = [module for module in backbone.modules() if hasattr(module, "finish")]
    if not blocks:
        raise FrnError(f"--compile does not support {type(backbone).__name__}. Remove it.")
    for block in blocks:
        block.finish = functools.partial(_finish, type(block).finish, block.slope)


def _finish(
    plain: Callable[..., Tensor], slope: float, maps: Sequence[Tensor], norms: Sequence[Any], *, pool: bool
) -> Tensor:
    """Normalise maps (b, c, h, w) by batch statistics, sum them, max-pool them by 2 x 2, and apply the activation.

    The running statistics of the norms are updated as usual. `slope` multiplies negative values.
    """
    if not _fits(maps, norms):
        return plain(maps, norms, pool=pool)
    weights = [tensor for norm in norms for tensor in (norm.weight, norm.bias)]
    return _Finish.apply(list(norms), slope, pool, *maps, *weights)


def _fits(maps: Sequence[Tensor], norms: Sequence[nn.Module]) -> bool:
    """Return whether `_Finish` can replace the plain functions: batch statistics, on a processor, with a gradient."""
    usual = all(type(norm) is nn.BatchNorm2d and norm.training and norm.momentum is not None for norm in norms)
    enough = all(x.numel() >= FEWEST * x.shape[1] for x in maps)
    learned = torch.is_grad_enabled() and all(x.requires_grad for x in maps)
    return usual and enough and learned and all(x.device.type == "cpu" for x in maps)


class _Finish(torch.autograd.Function):
    """Autograd function of `finish`. The loops see maps as (b, h, w, c), their layout in memory."""

    @staticmethod
    def forward(ctx: Any, norms: list[nn.BatchNorm2d], slope: float, pool: bool, *tensors: Tensor) -> Tensor:
        xs = [x.detach().permute(0, 2, 3, 1) for x in tensors[: len(norms)]]
        means, rates = zip(*map(_statistics, xs, norms), strict=True)
        scales = [norm.weight * rate for norm, rate in zip(norms, rates, strict=True)]
        shift = sum(norm.bias - mean * s for norm, mean, s in zip(norms, means, scales, strict=True))
        y, *windows = _loop(_pooled if pool else _activated)(xs, scales, shift, slope)
        ctx.means, ctx.rates, ctx.slope = means, rates, slope
        ctx.save_for_backward(*xs, *scales, y, *windows)
        return y.permute(0, 3, 1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        n, means, rates = len(ctx.means), list(ctx.means), ctx.rates
        xs, scales = ctx.saved_tensors[:n], ctx.saved_tensors[n : 2 * n]
        y, *windows = ctx.saved_tensors[2 * n :]
        dy = gradient.permute(0, 2, 3, 1)
        total, *along = _loop(_sums)(y, dy, windows[1:] or xs, means, ctx.slope)
        along = [rate * each for rate, each in zip(rates, along, strict=True)]  # the gradient of each norm's weight
        size = xs[0].numel() // xs[0].shape[-1]
        slopes = [s * rate * each / size for s, rate, each in zip(scales, rates, along, strict=True)]
        _, h, w, _ = xs[0].shape
        if windows and (h % 2 or w % 2):
            edge = (0, 0, 0, w % 2, 0, h % 2)
            y, dy, windows[0] = F.pad(y, edge), F.pad(dy, edge), F.pad(windows[0], edge, value=NONE)
        dxs = _loop(_gradient)(xs, y, dy, windows[:1], scales, means, total / size, slopes, ctx.slope)
        weights = [tensor for each in along for tensor in (each, total)]
        return None, None, None, *(dx.permute(0, 3, 1, 2) for dx in dxs), *weights


def _statistics(x: Tensor, norm: Any) -> tuple[Tensor, Tensor]:
    """Return mean and reciprocal deviation per channel of a map (b, h, w, c), and update the running statistics."""
    size = x.numel() // x.shape[-1]
    first, second = (total.double() / size for total in _loop(_moments)(x, norm.running_mean))
    mean, variance = norm.running_mean + first.float(), (second - first**2).clamp(min=0).float()
    norm.running_mean.lerp_(mean, norm.momentum)
    norm.running_var.lerp_(variance * (size / (size - 1)), norm.momentum)
    norm.num_batches_tracked.add_(1)
    return mean, (variance + norm.eps).rsqrt()


@functools.cache
def _loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop that `torch.compile` compiles at its first call, for maps of any size.

    A call raises FrnError if the compiler fails.
    """
    from torch._dynamo.exc import TorchDynamoException  # imported here: it takes a second and is rarely needed

    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it warns if there is no GPU
    compiled = torch.compile(function, dynamic=True, options=dict(ONE_PASS))

    def call(*tensors: Any) -> Any:
        try:
            return compiled(*tensors)
        except TorchDynamoException as error:
            first = str(error).splitlines()[0]
            raise FrnError(f"--compile: {first}. Remove the option, or fix the compiler.") from error

    return call


def _moments(x: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums (c) of x - near and of its square over a map (b, h, w, c); `near` should be near the mean."""
    x = x.float() - near
    return _sum(x), _sum(x * x)


def _activated(xs: list[Tensor], scales: list[Tensor], shift: Tensor, slope: float) -> list[Tensor]:
    """Return act(sum of s x + t) of maps (b, h, w, c)."""
    return [_act(_weighted(xs, scales) + shift, slope).to(xs[0].dtype)]


def _pooled(xs: list[Tensor], scales: list[Tensor], shift: Tensor, slope: float) -> list[Tensor]:
    """Return act(pool(sum of s x + t)), the corner of the largest value in each window, and each map's value there."""
    _, h, w, _ = xs[0].shape
    windows = [[x[:, i : h // 2 * 2 : 2, j : w // 2 * 2 : 2] for x in xs] for i, j in CORNERS]
    a, b, c, d = (_weighted(each, scales) for each in windows)
    most = torch.maximum(torch.maximum(a, b), torch.maximum(c, d))

    def chosen(four: Sequence[Any]) -> Tensor:
        return torch.where(
            a == most, four[0], torch.where(b == most, four[1], torch.where(c == most, four[2], four[3]))
        )

    corner = chosen([0.0, 1.0, 2.0, torch.full_like(most, 3)]).to(torch.int8)
    best = [chosen(four) for four in zip(*windows, strict=True)]
    return [_act(most + shift, slope).to(xs[0].dtype), corner, *best]


def _sums(y: Tensor, dy: Tensor, xs: list[Tensor], means: list[Tensor], slope: float) -> list[Tensor]:
    """Return the sums (c) of the gradient before the activation, and of its product with each x - mean.

    `xs` are the maps or, behind a pooling, their values at the largest location of each window.
    """
    g = _before(y, dy, slope)
    return [_sum(g), *(_sum(g * (x.float() - m)) for x, m in zip(xs, means, strict=True))]


def _gradient(
    xs: list[Tensor],
    y: Tensor,
    dy: Tensor,
    corner: list[Tensor],
    scales: list[Tensor],
    means: list[Tensor],
    level: Tensor,
    slopes: list[Tensor],
    slope: float,
) -> list[Tensor]:
    """Return the gradient (b, h, w, c) of each map: s (g - level) - slopes (x - mean).

    Behind a pooling, only the largest value of each window has a gradient g. y, dy and corners then cover all windows,
    including those that the edge cuts off.
    """
    g = _before(y, dy, slope)
    if corner:
        _, h, w, _ = xs[0].shape
        own = (torch.arange(h) % 2 * 2)[:, None, None] + (torch.arange(w) % 2)[:, None]
        g = torch.where(_doubled(corner[0].float(), h, w) == own.float(), _doubled(g, h, w), 0.0)
    parts = zip(xs, scales, means, slopes, strict=True)
    return [(s * (g - level) - each * (x.float() - m)).to(x.dtype) for x, s, m, each in parts]


def _weighted(xs: Sequence[Tensor], scales: Sequence[Tensor]) -> Tensor:
    first, *others = (x.float() * s for x, s in zip(xs, scales, strict=True))
    return functools.reduce(torch.add, others, first)


def _act(x: Tensor, slope: float) -> Tensor:
    return torch.where(x > 0, x, x * slope)


def _before(x: Tensor, dy: Tensor, slope: float) -> Tensor:
    """Return the gradient before the activation; the sign comes from x, the activation's result."""
    return torch.where(x > 0, dy.float(), dy.float() * slope)


def _sum(x: Tensor) -> Tensor:
    """Sum per channel, rows first: the loop handles few channels at a time, and a row of them stays in the cache."""
    return x.sum(2).sum((0, 1))


def _doubled(windows: Tensor, h: int, w: int) -> Tensor:
    """Return each window's value at all of its locations: (b, h / 2, w / 2, c) to (b, h, w, c)."""
    b, rows, columns, c = windows.shape
    wide = windows[:, :, None, :, None].expand(b, rows, 2, columns, 2, c)
    return wide.reshape(b, 2 * rows, 2 * columns, c)[:, :h, :w]
