"""Feature maps of every image of a split, each computed once, by torch or by onnxruntime."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from frn.data.cache import Progress, StoredImages
from frn.errors import FrnError
from frn.heads import build_head
from frn.heads.base import Head
from frn.images import EvaluationTransform
from frn.inference.extractor import Extractor
from frn.model import Model
from frn.numerics import Precision, autocast

BATCH, ONNX_BATCH = 256, 64
"""Images per forward pass, of torch and of onnxruntime."""


class FeatureExtractor(Protocol):
    """What evaluation needs of a model, whatever runs it."""

    @property
    def transform(self) -> EvaluationTransform:
        """How its images are prepared."""

    @property
    def method(self) -> str:
        """What its head is called."""

    @property
    def untrained_head(self) -> bool:
        """Whether nobody trained its head."""

    def extract(self, images: StoredImages, progress: Progress | None = None) -> Tensor:
        """Return feature maps (n, r, d), float32, of uniform images of the model's size."""

    def new_head(self) -> Head:
        """Return a copy of its head, which the caller may change.

        Raises:
            FrnError: if the model does not hold its whole head.
        """


@dataclass(frozen=True)
class TorchExtractor:
    """A torch model in evaluation mode, on `device`."""

    model: Model
    precision: Precision = "fp32"
    device: torch.device | str = "cpu"
    untrained_head: bool = False
    """Whether nobody trained its head, also where it is trained as a rule."""

    @property
    def transform(self) -> EvaluationTransform:
        """How its images are prepared."""
        return self.model.config.transform

    @property
    def method(self) -> str:
        """What its head is called."""
        return self.model.config.method

    def extract(self, images: StoredImages, progress: Progress | None = None) -> Tensor:
        """Return feature maps (n, r, d), float32, on the device."""
        return extract_features(self.model, images, precision=self.precision, device=self.device, progress=progress)

    def new_head(self) -> Head:
        """Return a copy of its head."""
        return copy.deepcopy(self.model.head)


@dataclass(frozen=True)
class OnnxExtractor:
    """An exported model, run by onnxruntime."""

    extractor: Extractor

    @property
    def transform(self) -> EvaluationTransform:
        """How its images are prepared."""
        return self.extractor.transform

    @property
    def method(self) -> str:
        """What its head is called."""
        return self.extractor.method

    @property
    def untrained_head(self) -> bool:
        """Whether nobody trained its head."""
        return self.extractor.untrained_head

    def extract(self, images: StoredImages, progress: Progress | None = None) -> Tensor:
        """Return feature maps (n, r, d), float32, on the processor."""
        pixels = images.images()
        feature_maps = torch.empty((len(images), *self.extractor.shape))
        for start in range(0, len(images), ONNX_BATCH):
            piece = self.extractor.feature_maps(pixels[start : start + ONNX_BATCH])
            feature_maps[start : start + ONNX_BATCH] = torch.from_numpy(piece)
            if progress:
                progress(min(start + ONNX_BATCH, len(images)), len(images))
        return feature_maps

    def new_head(self) -> Head:
        """Return a head with the learned numbers of the file's metadata.

        Raises:
            FrnError: if the head has layers of its own, which an extractor does not hold.
        """
        learned = self.extractor.learned
        head = build_head(self.method, self.extractor.shape[1])
        if missing := sorted(set(head.state_dict()) ^ set(learned)):
            raise FrnError(
                f"an exported {self.method} model does not hold its whole head ({', '.join(missing)}). "
                "Evaluate the torch model itself."
            )
        head.load_state_dict({name: torch.tensor(value) for name, value in learned.items()})
        return head


@torch.inference_mode()
def extract_features(
    model: Model,
    images: StoredImages,
    *,
    precision: Precision = "fp32",
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Tensor:
    """Return feature maps (n, r, d), float32, on the device.

    Args:
        model: in evaluation mode, on `device`.
        images: uniform images of the model's size.
        precision: of the backbone.
        device: where the model is.
        progress: called with images done and in all.
    """
    return torch.cat(list(_batches(model, images, precision, device, progress)))


@torch.inference_mode()
def mean_feature(
    model: Model,
    images: StoredImages,
    *,
    precision: Precision = "fp32",
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Tensor:
    """Return the average-pooled feature (d,) of all images together, in float32; arguments as above."""
    batches = _batches(model, images, precision, device, progress)
    total = torch.stack([feature_maps.double().mean(1).sum(0) for feature_maps in batches]).sum(0)
    return (total / len(images)).float()


def _batches(
    model: Model, images: StoredImages, precision: Precision, device: torch.device | str, progress: Progress | None
) -> Iterator[Tensor]:
    pixels = images.images()
    for start in range(0, len(images), BATCH):
        piece = torch.from_numpy(np.array(pixels[start : start + BATCH])).to(device)
        with autocast(device, precision):
            feature_maps = model.feature_maps(piece.permute(0, 3, 1, 2).float() / 255)
        yield feature_maps
        if progress:
            progress(min(start + BATCH, len(images)), len(images))
