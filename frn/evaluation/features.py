"""Feature maps of every image of a split, each computed once."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from frn.data.cache import Progress, StoredImages
from frn.errors import FrnError
from frn.heads import build_head
from frn.heads.base import Head
from frn.inference.extractor import Extractor
from frn.model import Model
from frn.numerics import Precision, autocast


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
    return torch.cat(list(_pieces(model, images, precision, device, batch, progress)))


@torch.inference_mode()
def mean_feature(
    model: Model,
    images: StoredImages,
    *,
    precision: Precision = "fp32",
    device: torch.device | str = "cpu",
    batch: int = 256,
    progress: Progress | None = None,
) -> Tensor:
    """Return the average-pooled feature (d,) of all images together, in float32; arguments as above."""
    pieces = _pieces(model, images, precision, device, batch, progress)
    total = torch.stack([maps.double().mean(1).sum(0) for maps in pieces]).sum(0)
    return (total / len(images)).float()


def _pieces(
    model: Model,
    images: StoredImages,
    precision: Precision,
    device: torch.device | str,
    batch: int,
    progress: Progress | None,
) -> Iterator[Tensor]:
    pixels = images.images()
    for start in range(0, len(images), batch):
        piece = torch.from_numpy(np.array(pixels[start : start + batch])).to(device)
        with autocast(device, precision):
            maps = model.feature_maps(piece.permute(0, 3, 1, 2).float() / 255)
        yield maps
        if progress:
            progress(min(start + batch, len(images)), len(images))


def extract_in_onnxruntime(
    extractor: Extractor, images: StoredImages, *, batch: int = 64, progress: Progress | None = None
) -> Tensor:
    """Return feature maps (n, r, d), float32, by an exported extractor.

    Args:
        extractor: the exported file.
        images: uniform images of its size.
        batch: images per run.
        progress: called with images done and in all.
    """
    pixels = images.images()
    maps = torch.empty((len(images), *extractor.shape))
    for start in range(0, len(images), batch):
        maps[start : start + batch] = torch.from_numpy(extractor.feature_maps(pixels[start : start + batch]))
        if progress:
            progress(min(start + batch, len(images)), len(images))
    return maps


def exported_head(extractor: Extractor) -> Head:
    """The head that an exported extractor was trained with, its learned numbers set.

    Raises:
        FrnError: if the head has layers of its own, which an extractor does not hold.
    """
    head = build_head(extractor.method, extractor.shape[1])
    if missing := sorted(set(head.state_dict()) ^ set(extractor.learned)):
        raise FrnError(
            f"an exported {extractor.method} model does not hold its whole head ({', '.join(missing)}). "
            "Evaluate the torch model itself."
        )
    head.load_state_dict({name: torch.tensor(value) for name, value in extractor.learned.items()})
    return head
