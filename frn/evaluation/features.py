"""Feature maps of every image of a split, each computed once."""

import numpy as np
import torch
from torch import Tensor

from frn.data.cache import Progress, StoredImages
from frn.model import Model
from frn.precision import Precision, autocast


@torch.inference_mode()
def extract_features(
    model: Model,
    images: StoredImages,
    *,
    precision: Precision = "fp32",
    device: torch.device | str = "cpu",
    batch: int = 256,
    progress: Progress | None = None,
) -> Tensor:
    """Return feature maps (n, r, d), float32, on the device.

    Args:
        model: in evaluation mode, on `device`.
        images: uniform images of the model's size.
        precision: of the backbone.
        device: where the model is.
        batch: images per forward pass.
        progress: called with images done and in all.
    """
    pixels = images.images()
    maps = []
    for start in range(0, len(images), batch):
        piece = torch.from_numpy(np.array(pixels[start : start + batch])).to(device)
        with autocast(device, precision):
            maps.append(model.feature_maps(piece.permute(0, 3, 1, 2).float() / 255))
        if progress:
            progress(min(start + batch, len(images)), len(images))
    return torch.cat(maps)
