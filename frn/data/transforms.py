"""Augmentation of whole batches, on whatever device the pixels are.

A crop, a resize and a flip are linear in rows and columns, so each image gets two small matrices and the batch two
matrix products. The weights are Pillow's antialiased bilinear ones; nothing is rounded to grey levels in between.

Shape letters: b images, H x W canvas, s side of the result.
"""

import numpy as np
import torch
from torch import Tensor

from frn.data.augmentation import Augmentation, Draw
from frn.images import Pixels

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R 601-2, as Pillow's mode L)."""


def augment(
    canvas: Pixels,
    extents: np.typing.NDArray[np.int64],
    augmentation: Augmentation,
    generator: np.random.Generator,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Augment images (b, 3, s, s), float32 in [0, 1].

    The canvas (b, H, W, 3) has the images at its top left, `extents` (b, 2) their heights and widths. The generator
    draws the same on every device.
    """
    draw = augmentation.draw(extents, generator)
    pixels = torch.from_numpy(canvas).to(device).permute(0, 3, 1, 2).float().div_(255)
    cropped = crop_and_resize(pixels, extents, draw, augmentation.size)
    return jitter_colours(cropped, draw) if augmentation.jitter else cropped


def crop_and_resize(pixels: Tensor, extents: np.typing.NDArray[np.int64], draw: Draw, size: int) -> Tensor:
    """Cut each image's box out, resize it to size x size and flip it: (b, 3, H, W) to (b, 3, s, s)."""
    rows = axis_weights(draw.boxes[:, 0], draw.boxes[:, 2], extents[:, 0], pixels.shape[2], size)
    columns = axis_weights(draw.boxes[:, 1], draw.boxes[:, 3], extents[:, 1], pixels.shape[3], size)
    columns = np.where(draw.flips[:, None, None], columns[:, ::-1], columns)
    down, across = (torch.from_numpy(m).to(pixels.device)[:, None] for m in (rows, columns))
    return down @ pixels @ across.mT


def axis_weights(
    start: np.typing.NDArray[np.float64],
    length: np.typing.NDArray[np.float64],
    extent: np.typing.NDArray[np.int64],
    canvas: int,
    size: int,
) -> np.typing.NDArray[np.float32]:
    """Weights (b, size, canvas) that resample [start, start + length) of each row of pixels to `size` pixels.

    A triangle filter, as wide as a target pixel when scaling down; pixels outside the box have no part in it, and
    those outside the image are black.
    """
    scale = (length / size)[:, None, None]
    centre = start[:, None, None] + (np.arange(size)[None, :, None] + 0.5) * scale
    reach = np.maximum(scale, 1.0)
    low, high = start[:, None, None], (start + length)[:, None, None]
    # Black pixels outside the image take part in the normalisation: reach over them, then drop their columns.
    margin = int(max(0.0, -start.min(), (start + length - canvas).max()))
    position = np.arange(-margin, canvas + margin)[None, None, :] + 0.5
    weights = np.clip(1 - np.abs(position - centre) / reach, 0, None)
    weights *= (position > low) & (position < high)
    weights /= weights.sum(axis=-1, keepdims=True)
    weights *= (position > 0) & (position < extent[:, None, None])
    return weights[:, :, margin : margin + canvas].astype(np.float32)


def jitter_colours(images: Tensor, draw: Draw) -> Tensor:
    """Change brightness, contrast and saturation of each image in its own order, in place: (b, 3, s, s).

    All three blend the image with something: black, its mean grey, or its grey version.
    """
    luma = torch.tensor(LUMA, device=images.device)
    for stage in range(3):
        kind = draw.order[:, stage]
        factor = draw.factors[np.arange(len(kind)), kind]
        wants_mean, wants_grey, factors = (
            torch.from_numpy(a.astype(np.float32)).to(images.device)[:, None, None]
            for a in (kind == 1, kind == 2, factor)
        )
        grey = torch.einsum("bchw,c->bhw", images, luma)
        other = grey * wants_grey + grey.mean((1, 2), keepdim=True) * wants_mean
        images.mul_(factors[:, None]).add_((other * (1 - factors))[:, None]).clamp_(0, 1)
    return images
