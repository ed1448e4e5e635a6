"""Feature maps of every image of a split, each computed once, with torch or onnxruntime."""

import copy
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from frn.data.pixel_cache import Progress, StoredImages
from frn.errors import FrnError
from frn.features.extractor import Extractor, Tta, seen_by
from frn.heads import build_head
from frn.heads.head import Head
from frn.models.model import Model
from frn.system.precision import Precision, autocast

BATCH, GPU_BATCH = 64, 256  # Images per forward pass. Larger batches on a processor need more memory and save no time.


class TorchExtractor:
    """A torch model in evaluation mode, which is moved to `device`; `tta` is test-time augmentation."""

    def __init__(
        self,
        model: Model,
        precision: Precision = "fp32",
        device: torch.device | str = "cpu",
        *,
        untrained_head: bool = False,
        tta: Tta = "none",
    ) -> None:
        self.model, self.precision, self.device = model.to(device), precision, device
        self.transform, self.method = seen_by(model.config.transform, tta), model.config.method
        self.untrained_head, self.tta = untrained_head, tta

    @torch.inference_mode()
    def extract(self, images: StoredImages, progress: Progress | None = None) -> Tensor:
        """Return feature maps (n, r, d), float32, on the device."""
        return torch.cat(list(self._batches(images, progress)))

    @torch.inference_mode()
    def mean_feature(self, images: StoredImages, progress: Progress | None = None) -> Tensor:
        """Return the mean of all images' average-pooled features (d,), in float32."""
        batches = self._batches(images, progress)
        total = torch.stack([feature_maps.double().mean(1).sum(0) for feature_maps in batches]).sum(0)
        return (total / len(images)).float()

    def _batches(self, images: StoredImages, progress: Progress | None) -> Iterator[Tensor]:
        pixels, model = images.images(), self.model.folded()
        batch = BATCH if torch.device(self.device).type == "cpu" else GPU_BATCH
        for start in range(0, len(images), batch):
            piece = torch.from_numpy(np.array(pixels[start : start + batch])).to(self.device)
            with autocast(self.device, self.precision):
                upright = piece.permute(0, 3, 1, 2).float() / 255
                feature_maps = augmented_maps(model.feature_maps, upright, model.grid, self.tta)
            yield feature_maps
            if progress:
                progress(min(start + batch, len(images)), len(images))

    def new_head(self) -> Head:
        """Return a copy of the head, which the caller may change."""
        return copy.deepcopy(self.model.head)


class OnnxExtractor:
    """An exported model, run in onnxruntime."""

    def __init__(self, extractor: Extractor, *, tta: Tta = "none") -> None:
        self.extractor, self.tta = extractor, tta
        self.transform, self.method = seen_by(extractor.transform, tta), extractor.method
        self.untrained_head = extractor.untrained_head

    def extract(self, images: StoredImages, progress: Progress | None = None) -> Tensor:
        """Return feature maps (n, r, d), float32, on the processor."""
        pixels, (r, d) = images.images(), self.extractor.shape
        feature_maps = torch.empty((len(images), 4 * r if self.tta == "views" else r, d))

        def run(planes: Tensor) -> Tensor:
            return torch.tensor(self.extractor.feature_maps(planes.permute(0, 2, 3, 1).numpy()))

        for start in range(0, len(images), BATCH):
            upright = torch.from_numpy(np.array(pixels[start : start + BATCH])).permute(0, 3, 1, 2)
            feature_maps[start : start + BATCH] = augmented_maps(run, upright, self.extractor.grid, self.tta)
            if progress:
                progress(min(start + BATCH, len(images)), len(images))
        return feature_maps

    def new_head(self) -> Head:
        """Return a head with the learned parameters in the file's metadata.

        Raises FrnError if the head has its own layers, which an extractor does not contain.
        """
        learned = self.extractor.learned
        head = build_head(self.method, self.extractor.shape[1])
        if missing := sorted(set(head.state_dict()) ^ set(learned)):
            raise FrnError(
                f"an exported {self.method} model does not contain its whole head ({', '.join(missing)}). "
                "Evaluate the torch model instead."
            )
        head.load_state_dict({name: torch.tensor(value) for name, value in learned.items()})
        return head


FeatureExtractor = TorchExtractor | OnnxExtractor  # a model for evaluation, independent of its runtime


def augmented_maps(run: Callable[[Tensor], Tensor], images: Tensor, grid: tuple[int, int], tta: Tta) -> Tensor:
    """Return the maps (n, r, d) of images (n, 3, S, S), or (n, 4 r, d) of views of images (n, 3, 1.5 S, 1.5 S).

    The order of the views is that of `frn_export.graphs.mirror`.
    """
    if tta == "views":
        length = images.shape[-1]
        side = -(-length * 2 // 3)
        ends = (slice(side), slice(length - side, length))
        maps = run(torch.cat([images[..., y, x] for y in ends for x in ends]))
        return maps.unflatten(0, (4, -1)).transpose(0, 1).flatten(1, 2)
    maps = run(images)
    return (maps + turned_back(run(images.flip(-1)), grid)) / 2 if tta == "hflip" else maps


def turned_back(feature_maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Flip maps (n, h w, d) of mirror images back to the orientation of the original images."""
    return feature_maps.unflatten(1, grid).flip(2).flatten(1, 2)
