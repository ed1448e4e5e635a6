"""What follows a convolution in training as one function of few passes over memory: norm, sum, pooling and activation.

On a processor these wait for memory, not for arithmetic: torch's own functions, one after the other, read and write a
map a dozen times. Here y = act(pool(sum of s_i x_i + t)), with s_i and t from the moments of a batch, and its gradient
are loops of one pass each (`frn.backbones.loops`), which `torch.compile` writes in C++: it takes a compiler, and half a
minute when it is first used. Sums are in float32 and only results are rounded to the maps' format, where the plain
functions round after each of them.
"""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from frn.backbones import loops as plain
from frn.backbones.loops import NONE
from frn.errors import FrnError

ONE_PASS = {"realize_reads_threshold": 64, "realize_opcount_threshold": 1000}
"""Nothing in between is written to memory and read again, which costs more than to compute it twice."""

FEWEST = 64
"""Values of a channel. The variance of fewer may be as small as what float32 sums round away; and one has none."""


def compile_blocks(backbone: nn.Module) -> None:
    """Have the blocks of a backbone continue by `finish` where they train. FrnError if it has no such blocks."""
    blocks: list[Any] = [module for module in backbone.modules() if hasattr(module, "compiled")]
    if not blocks:
        raise FrnError(f"--compile: nothing of a {type(backbone).__name__} is made for it. Leave it out.")
    for block in blocks:
        block.compiled = True


def fits(maps: Sequence[Tensor], norms: Sequence[nn.Module]) -> bool:
    """Whether `finish` does what the plain functions do: statistics of the batch, on a processor, with a gradient."""
    usual = all(type(norm) is nn.BatchNorm2d and norm.training and norm.momentum is not None for norm in norms)
    enough = all(x.numel() >= FEWEST * x.shape[1] for x in maps)
    learned = torch.is_grad_enabled() and all(x.requires_grad for x in maps)
    return usual and enough and learned and all(x.device.type == "cpu" for x in maps)


def finish(maps: Sequence[Tensor], norms: Sequence[nn.Module], *, slope: float, pool: bool) -> Tensor:
    """Normalise maps (b, c, h, w) by the batch, add them up, take the largest of each 2 x 2 locations, and activate.

    The running statistics of the norms move on, as theirs do. Negative values are multiplied by `slope`.
    """
    weights = [tensor for norm in norms for tensor in (norm.weight, norm.bias)]
    y: Tensor = _Finish.apply(list(norms), slope, pool, *maps, *weights)
    return y


class _Finish(torch.autograd.Function):
    """The loops see maps as (b, h, w, c), which is how they lie in memory."""

    @staticmethod
    def forward(ctx: Any, norms: list[nn.BatchNorm2d], slope: float, pool: bool, *tensors: Tensor) -> Tensor:
        loops = compiled_loops()
        xs = [x.detach().permute(0, 2, 3, 1) for x in tensors[: len(norms)]]
        batches = [_statistics(loops, x, norm) for x, norm in zip(xs, norms, strict=True)]
        scales = [norm.weight * batch.rate for norm, batch in zip(norms, batches, strict=True)]
        shift = sum(norm.bias - batch.mean * s for norm, batch, s in zip(norms, batches, scales, strict=True))
        ctx.batches, ctx.slope, ctx.pool = batches, slope, pool
        if pool:
            y, corner, *best = loops.pooled(xs, scales, shift, slope)
            ctx.save_for_backward(*xs, *scales, y, corner, *best)
        else:
            y = loops.activated(xs, scales, shift, slope)
            ctx.save_for_backward(*xs, *scales, shift)
        result: Tensor = y.permute(0, 3, 1, 2)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        loops, slope, batches = compiled_loops(), ctx.slope, ctx.batches
        n = len(batches)
        xs, scales, rest = ctx.saved_tensors[:n], ctx.saved_tensors[n : 2 * n], ctx.saved_tensors[2 * n :]
        dy = gradient.permute(0, 2, 3, 1)
        means, rates = [batch.mean for batch in batches], [batch.rate for batch in batches]
        if ctx.pool:
            y, corner, *best = rest
            total, *along = loops.sums_of_pooled(y, dy, best, means, slope)
        else:
            (shift,) = rest
            total, *along = loops.sums_of_activated(xs, dy, scales, shift, means, slope)
        along = [rate * each for rate, each in zip(rates, along, strict=True)]  # the gradient of each norm's weight
        size = xs[0].numel() // xs[0].shape[-1]
        slopes = [s * rate * each / size for s, rate, each in zip(scales, rates, along, strict=True)]
        if ctx.pool:
            _, h, w, _ = xs[0].shape
            edge = (0, 0, 0, w % 2, 0, h % 2)
            if any(edge):
                y, dy, corner = F.pad(y, edge), F.pad(dy, edge), F.pad(corner, edge, value=NONE)
            dxs = loops.gradient_of_pooled(xs, y, dy, corner, scales, means, total / size, slopes, slope)
        else:
            dxs = loops.gradient_of_activated(xs, dy, scales, shift, means, total / size, slopes, slope)
        weights = [tensor for each in along for tensor in (each, total)]
        return None, None, None, *(dx.permute(0, 3, 1, 2) for dx in dxs), *weights


class _Batch(NamedTuple):
    """Per channel."""

    mean: Tensor
    rate: Tensor
    """One over the deviation."""


def _statistics(loops: "Loops", x: Tensor, norm: nn.BatchNorm2d) -> _Batch:
    """Mean and deviation of a map (b, h, w, c); the running ones take their share of them."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    assert norm.momentum is not None
    size = x.numel() // x.shape[-1]
    first, second = (total.double() / size for total in loops.moments(x, norm.running_mean))
    mean, variance = norm.running_mean + first.float(), (second - first**2).clamp(min=0).float()
    norm.running_mean.lerp_(mean, norm.momentum)
    norm.running_var.lerp_(variance * (size / (size - 1)), norm.momentum)
    norm.num_batches_tracked.add_(1)
    return _Batch(mean, (variance + norm.eps).rsqrt())


class Loops(NamedTuple):
    """The passes over maps, one C++ loop each."""

    moments: Callable[..., tuple[Tensor, Tensor]]
    activated: Callable[..., Tensor]
    pooled: Callable[..., list[Tensor]]
    sums_of_activated: Callable[..., list[Tensor]]
    sums_of_pooled: Callable[..., list[Tensor]]
    gradient_of_activated: Callable[..., list[Tensor]]
    gradient_of_pooled: Callable[..., list[Tensor]]


@functools.cache
def compiled_loops() -> Loops:
    """The loops as `torch.compile` has them, for maps of any size; each is written when it is first called.

    A call is an FrnError if the compiler fails.
    """
    from torch._dynamo.exc import TorchDynamoException  # here: it takes a second, of which others need nothing

    def calling(loop: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(loop)
        def call(*tensors: Any) -> Any:
            try:
                return loop(*tensors)
            except TorchDynamoException as error:
                first = str(error).splitlines()[0]
                raise FrnError(f"--compile: {first}. Leave it out, or mend the compiler.") from error

        return call

    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it misses a GPU, which nobody asked for
    return Loops(
        *(calling(torch.compile(getattr(plain, name), dynamic=True, options=dict(ONE_PASS))) for name in Loops._fields)
    )
