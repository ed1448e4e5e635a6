"""Augmentation of whole batches, on whatever device the pixels are.

A crop, a resize and a flip are linear in rows and columns, so each image gets two small matrices and the batch two
matrix products. The weights are Pillow's antialiased bilinear ones; nothing is rounded to grey levels in between.

Shape letters: b images, H x W canvas, s side of the result.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from frn.data.augmentation import Augmentation, Draw
from frn.images import Pixels

Floats = NDArray[np.float64]
Lengths = NDArray[np.int64]

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R 601-2, as Pillow's mode L)."""
BLOCK = 16
"""Images whose weights a processor takes at a time: they stay in its cache."""


def augment(
    canvas: Pixels | Tensor,
    extents: Lengths,
    augmentation: Augmentation,
    generator: np.random.Generator,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Augment images (b, 3, s, s), float32 in [0, 1].

    The canvas (b, H, W, 3) has the images at its top left, `extents` (b, 2) their heights and widths. The generator
    draws the same on every device; nothing waits for the device.
    """
    draw = augmentation.draw(extents, generator)
    pixels = torch.as_tensor(canvas).to(device, non_blocking=True).permute(0, 3, 1, 2)
    cropped = crop_and_resize(pixels, extents, draw, augmentation.size)
    return jitter_colours(cropped, draw) if augmentation.jitter else cropped


def crop_and_resize(pixels: Tensor, extents: Lengths, draw: Draw, size: int) -> Tensor:
    """Cut each image's box out, resize it to size x size and flip it: grey levels (b, 3, H, W) to (b, 3, s, s).

    The result is float32, 255 becoming 1.
    """
    if pixels.device.type != "cpu":
        return crop_together(pixels, extents, draw, size)
    cropped = torch.empty(len(pixels), 3, size, size)
    starts = draw.boxes[:, :2].clip(0).astype(int).tolist()
    ends = np.minimum(np.ceil(draw.boxes[:, :2] + draw.boxes[:, 2:]), extents).astype(int).tolist()
    for first in range(0, len(pixels), BLOCK):
        block = slice(first, first + BLOCK)
        weights = zip(*resampling(pixels[block], extents[block], draw.part(block), size), strict=True)
        for i, (rows, columns) in enumerate(weights, start=first):
            (top, left), (bottom, right) = starts[i], ends[i]
            # Half of the pixels lie outside the box: each image alone takes half the time of all together.
            part = pixels[i, :, top:bottom, left:right].to(torch.float32, memory_format=torch.contiguous_format)
            torch.matmul(rows[:, top:bottom] @ part, columns[:, left:right].mT, out=cropped[i])
    return cropped


def crop_together(pixels: Tensor, extents: Lengths, draw: Draw, size: int) -> Tensor:
    """The same in two products of all images: for devices that take long to begin and short to compute."""
    rows, columns = resampling(pixels, extents, draw, size)
    return rows[:, None] @ pixels.float() @ columns[:, None].mT


def resampling(pixels: Tensor, extents: Lengths, draw: Draw, size: int) -> tuple[Tensor, Tensor]:
    """What a crop, its resize and flip do to rows (b, s, H), 255 becoming 1, and to columns (b, s, W)."""
    top, left, height, width = draw.boxes.T
    rows = axis_weights(top, height, extents[:, 0], pixels.shape[2], size, pixels.device)
    columns = axis_weights(left, width, extents[:, 1], pixels.shape[3], size, pixels.device, draw.flips)
    return rows.div_(255), columns


def axis_weights(
    start: Floats,
    length: Floats,
    extent: Lengths,
    canvas: int,
    size: int,
    device: torch.device,
    mirrored: NDArray[np.bool_] | None = None,
) -> Tensor:
    """Weights (b, size, canvas) that resample [start, start + length) of each row of pixels to `size` pixels.

    A triangle filter, as wide as a target pixel when scaling down; pixels outside the box have no part in it, and
    those outside the image are black.
    """
    low, high, scale, end = (_column(a, device) for a in (start, start + length, length / size, extent))
    target = torch.arange(size, device=device)[:, None]
    if mirrored is not None:
        target = torch.where(_column(mirrored, device), target.flip(0), target)
    centre = low + (target + 0.5) * scale
    # Black pixels outside the image take part in the normalisation: reach over them, then drop their columns.
    margin = int(max(0.0, -start.min(), (start + length - canvas).max()))
    position = torch.arange(-margin, canvas + margin, device=device) + 0.5
    weights = (position - centre).abs_().div_(scale.clamp(min=1)).neg_().add_(1).clamp_(min=0)
    weights *= (position > low) & (position < high)
    weights /= weights.sum(-1, keepdim=True)
    weights *= (position > 0) & (position < end)
    return weights[:, :, margin : margin + canvas]


def _column(values: NDArray[np.generic], device: torch.device) -> Tensor:
    """Numbers of each image, (b, 1, 1): truth as it is, else in float32."""
    kept = values if values.dtype == bool else values.astype(np.float32)
    return torch.from_numpy(kept).to(device, non_blocking=True)[:, None, None]


def jitter_colours(images: Tensor, draw: Draw) -> Tensor:
    """Change brightness, contrast and saturation of each image in its own order, in place: (b, 3, s, s).

    All three blend the image with something: black, its mean grey, or its grey version.
    """
    if images.device.type != "cpu":
        return jitter_together(images, draw)
    luma = torch.tensor(LUMA)
    # One image at a time stays in the cache: a seventh of the time of all together.
    for image, order, factors in zip(images, draw.order.tolist(), draw.factors.tolist(), strict=True):
        for kind in order:
            factor = factors[kind]
            if kind:
                grey = (luma @ image.flatten(1)).view(image.shape[1:])
                image.mul_(factor).add_(grey.mean() if kind == 1 else grey, alpha=1 - factor)
            else:
                image.mul_(factor)
            image.clamp_(0, 1)
    return images


def jitter_together(images: Tensor, draw: Draw) -> Tensor:
    """The same without a loop over images: for devices that take long to begin and short to compute."""
    luma = torch.tensor(LUMA, device=images.device)
    for stage in range(3):
        kind = draw.order[:, stage]
        factor = draw.factors[np.arange(len(kind)), kind]
        wants_mean, wants_grey, factors = (
            _column(a.astype(np.float32), images.device) for a in (kind == 1, kind == 2, factor)
        )
        grey = torch.einsum("bchw,c->bhw", images, luma)
        other = grey * wants_grey + grey.mean((1, 2), keepdim=True) * wants_mean
        images.mul_(factors[:, None]).add_((other * (1 - factors))[:, None]).clamp_(0, 1)
    return images
