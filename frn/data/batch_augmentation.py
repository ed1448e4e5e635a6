"""Augmentation of whole batches, on the device of the pixels.

Resizing uses Pillow's antialiased bilinear weights. On a processor, images are handled one by one, with rounding to
grey levels as in Pillow. On other devices, crop, resize and flip are linear in rows and columns:
two small matrices per image and two batched matrix products, without rounding.

Shape letters: b images, H x W canvas, s side of the result.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from frn.data.augmentation import Augmentation, Draw
from frn.images.transforms import Pixels

Floats = NDArray[np.float64]
Lengths = NDArray[np.int64]

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in grey (ITU-R 601-2, as in Pillow's mode L)


def augment(
    canvas: Pixels | Tensor,
    extents: Lengths,
    augmentation: Augmentation,
    generator: np.random.Generator,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Augment images to (b, 3, s, s), float32 in [0, 1].

    The canvas (b, H, W, 3) has each image at its top left; `extents` (b, 2) are their heights and widths. The generator
    draws the same numbers for every device, and nothing waits for the device.
    """
    draw = augmentation.draw(extents, generator)
    pixels = torch.as_tensor(canvas).to(device, non_blocking=True).permute(0, 3, 1, 2)
    cropped = crop_and_resize(pixels, extents, draw, augmentation.size)
    return jitter_colours(cropped, draw) if augmentation.jitter else cropped


def crop_and_resize(pixels: Tensor, extents: Lengths, draw: Draw, size: int) -> Tensor:
    """Crop each image, resize it to size x size and flip it: grey levels (b, 3, H, W) to (b, 3, s, s).

    The result is float32, with 255 mapped to 1. On a processor it is first rounded to grey levels, as in Pillow.
    """
    if pixels.device.type != "cpu":
        return crop_together(pixels, extents, draw, size)
    cropped = torch.empty(len(pixels), 3, size, size)
    boxes = draw.boxes.astype(int).tolist()
    for image, box, extent, flip, result in zip(pixels, boxes, extents.tolist(), draw.flips, cropped, strict=True):
        part = _cut(image, box, extent)
        if part.shape[1:] != (size, size):
            (part,) = F.interpolate(part[None], (size, size), mode="bilinear", antialias=True)
        torch.div(part.flip(2) if flip else part, 255, out=result)
    return cropped


def _cut(image: Tensor, box: Sequence[int], extent: Sequence[int]) -> Tensor:
    """Return a box (3, height, width) of an image at the top left of (3, H, W), black outside the image."""
    top, left, height, width = box
    rows = slice(max(top, 0), min(top + height, extent[0]))
    columns = slice(max(left, 0), min(left + width, extent[1]))
    inside = image[:, rows, columns]
    if inside.shape[1:] == (height, width):
        return inside
    part = image.new_zeros(3, height, width)
    part[:, rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = inside
    return part


def crop_together(pixels: Tensor, extents: Lengths, draw: Draw, size: int) -> Tensor:
    """Crop all images in two batched products, for devices where starting an operation costs more than computing it."""
    top, left, height, width = draw.boxes.T
    rows = axis_weights(top, height, extents[:, 0], pixels.shape[2], size, pixels.device)
    columns = axis_weights(left, width, extents[:, 1], pixels.shape[3], size, pixels.device, draw.flips)
    return rows.div_(255)[:, None] @ pixels.float() @ columns[:, None].mT


def axis_weights(
    start: Floats,
    length: Floats,
    extent: Lengths,
    canvas: int,
    size: int,
    device: torch.device,
    mirrored: NDArray[np.bool_] | None = None,
) -> Tensor:
    """Return weights (b, size, canvas) that resample [start, start + length) of each row of pixels to `size` pixels.

    The filter is a triangle, as wide as a target pixel when scaling down. Pixels outside the box have no weight; those
    outside the image are black.
    """
    low, high, scale, end = (_column(a, device) for a in (start, start + length, length / size, extent))
    target = torch.arange(size, device=device)[:, None]
    if mirrored is not None:
        target = torch.where(_column(mirrored, device), target.flip(0), target)
    centre = low + (target + 0.5) * scale
    # Black pixels outside the image count for the normalisation: include them, then drop their columns.
    margin = int(max(0.0, -start.min(), (start + length - canvas).max()))
    position = torch.arange(-margin, canvas + margin, device=device) + 0.5
    weights = (position - centre).abs_().div_(scale.clamp(min=1)).neg_().add_(1).clamp_(min=0)
    weights *= (position > low) & (position < high)
    weights /= weights.sum(-1, keepdim=True)
    weights *= (position > 0) & (position < end)
    return weights[:, :, margin : margin + canvas]


def _column(values: NDArray[np.generic], device: torch.device) -> Tensor:
    """Return one value per image as (b, 1, 1); booleans keep their dtype, others become float32."""
    kept = values if values.dtype == bool else values.astype(np.float32)
    return torch.from_numpy(kept).to(device, non_blocking=True)[:, None, None]


def jitter_colours(images: Tensor, draw: Draw) -> Tensor:
    """Change brightness, contrast and saturation of each image (b, 3, s, s) in its own order, in place.

    All three blend the image with a second one: black, its mean grey, or its grey version.
    """
    if images.device.type != "cpu":
        return jitter_together(images, draw)
    luma = torch.tensor(LUMA)
    # One image at a time stays in the processor's cache and takes a seventh of the time of a whole batch at once.
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
    """Jitter without a loop over images, for devices where starting an operation costs more than computing it."""
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
