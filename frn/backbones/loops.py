"""The passes over maps (b, h, w, c) behind `frn.backbones.compiled`: one loop each, once `torch.compile` has them."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Corners of a 2 x 2 window, in the order in which equal values go before each other."""
NONE = 4
"""In the place of a corner, where an odd map's last row or column is in no window."""


def moments(x: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Sums (c) over a map (b, h, w, c) of x - near and of its square; near the mean they cancel least."""
    x = x.float() - near
    return _sum(x), _sum(x * x)


def activated(xs: list[Tensor], scales: list[Tensor], shift: Tensor, slope: float) -> Tensor:
    """act(sum of s x + t) of maps (b, h, w, c)."""
    return _act(_weighted(xs, scales) + shift, slope).to(xs[0].dtype)


def pooled(xs: list[Tensor], scales: list[Tensor], shift: Tensor, slope: float) -> list[Tensor]:
    """act(pool(sum of s x + t)), the corner of each window where the largest is, and each map's value there."""
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


def sums_of_activated(
    xs: list[Tensor], dy: Tensor, scales: list[Tensor], shift: Tensor, means: list[Tensor], slope: float
) -> list[Tensor]:
    """Sums (c) of the gradient before the activation, and of that times each x - mean."""
    g = _before(_weighted(xs, scales) + shift, dy, slope)
    return _sums(g, xs, means)


def sums_of_pooled(y: Tensor, dy: Tensor, best: list[Tensor], means: list[Tensor], slope: float) -> list[Tensor]:
    """The same, where only the largest of each window has a gradient."""
    return _sums(_before(y, dy, slope), best, means)


def gradient_of_activated(
    xs: list[Tensor],
    dy: Tensor,
    scales: list[Tensor],
    shift: Tensor,
    means: list[Tensor],
    level: Tensor,
    slopes: list[Tensor],
    slope: float,
) -> list[Tensor]:
    """The gradient (b, h, w, c) along each map: s (g - level) - slopes (x - mean)."""
    g = _before(_weighted(xs, scales) + shift, dy, slope)
    return _along(g, xs, scales, means, level, slopes)


def gradient_of_pooled(
    xs: list[Tensor],
    y: Tensor,
    dy: Tensor,
    corner: Tensor,
    scales: list[Tensor],
    means: list[Tensor],
    level: Tensor,
    slopes: list[Tensor],
    slope: float,
) -> list[Tensor]:
    """The same, where only the largest of each window has a gradient.

    y, dy and corners are of all windows, also of those that the edge cuts off.
    """
    _, h, w, _ = xs[0].shape
    own = (torch.arange(h) % 2 * 2)[:, None, None] + (torch.arange(w) % 2)[:, None]
    g = torch.where(_doubled(corner.float(), h, w) == own.float(), _doubled(_before(y, dy, slope), h, w), 0.0)
    return _along(g, xs, scales, means, level, slopes)


def _weighted(xs: Sequence[Tensor], scales: Sequence[Tensor]) -> Tensor:
    first, *others = (x.float() * s for x, s in zip(xs, scales, strict=True))
    return functools.reduce(torch.add, others, first)


def _act(x: Tensor, slope: float) -> Tensor:
    return torch.where(x > 0, x, x * slope)


def _before(x: Tensor, dy: Tensor, slope: float) -> Tensor:
    """The gradient before the activation, of whose argument or result x has the sign."""
    return torch.where(x > 0, dy.float(), dy.float() * slope)


def _sums(g: Tensor, xs: Sequence[Tensor], means: Sequence[Tensor]) -> list[Tensor]:
    return [_sum(g), *(_sum(g * (x.float() - m)) for x, m in zip(xs, means, strict=True))]


def _sum(x: Tensor) -> Tensor:
    """Per channel, a row first: the loop goes through few channels at a time, and a row of them stays in the cache."""
    return x.sum(2).sum((0, 1))


def _along(
    g: Tensor,
    xs: Sequence[Tensor],
    scales: Sequence[Tensor],
    means: Sequence[Tensor],
    level: Tensor,
    slopes: Sequence[Tensor],
) -> list[Tensor]:
    parts = zip(xs, scales, means, slopes, strict=True)
    return [(s * (g - level) - each * (x.float() - m)).to(x.dtype) for x, s, m, each in parts]


def _doubled(windows: Tensor, h: int, w: int) -> Tensor:
    """Each window's value at all of its locations: (b, h / 2, w / 2, c) to (b, h, w, c)."""
    b, rows, columns, c = windows.shape
    wide = windows[:, :, None, :, None].expand(b, rows, 2, columns, 2, c)
    return wide.reshape(b, 2 * rows, 2 * columns, c)[:, :h, :w]
