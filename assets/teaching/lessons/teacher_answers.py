"""A teacher's outputs for each photo, which are computed once, stored in half precision, and read during training.

Shape letters: n photos, b photos of a batch, r locations, c channels of the teacher's map, f of its pooled features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.backbones.pretrained import TimmMaps, recipe
from frn.data.pixel_cache import ConcatImages
from frn.errors import FrnError
from frn.models.model import read_weights

BATCH = 64
Progress = Callable[[int, int], None]


class Classifier(nn.Module):
    """A frozen timm network with its ImageNet classifier."""

    mean: Tensor
    std: Tensor
    net: Any

    def __init__(self, name: str, file: Path, size: int) -> None:
        """Load the weights from a file. Raises FrnError if the weights belong to a different network."""
        super().__init__()
        source, _, own = name.partition(":")
        if source != "timm":
            raise FrnError(f"{name}: a teacher must be named timm:NAME")
        import timm

        self.size, how = size, recipe(name, file)
        self.register_buffer("mean", torch.tensor(how.mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(how.std).view(3, 1, 1))
        self.net = timm.create_model(own)
        try:
            self.net.load_state_dict(TimmMaps.renamed(own, read_weights(file), self.net))
        except RuntimeError as error:
            raise FrnError(f"{file}: does not belong to {name} ({str(error).splitlines()[-1].strip()})") from error
        self.requires_grad_(False).eval()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return maps (b, r, c) with a mean square of one, and pooled features (b, f), of images (b, 3, H, W)."""
        x = F.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        last, (maps,) = self.net.forward_intermediates((x - self.mean) / self.std, indices=1, norm=True)
        maps = maps / maps.square().mean((1, 2, 3), keepdim=True).sqrt().clamp_min(1e-6)
        return maps.flatten(2).mT, last.mean((2, 3))

    def classify(self, pooled: Tensor) -> Tensor:
        """Return logits (b, 1000) of pooled features (b, f)."""
        logits: Tensor = self.net.classifier(pooled)
        return logits


@dataclass(frozen=True, slots=True)
class Answers:
    """The outputs of one teacher for the first n photos, stored in memory-mapped files in half precision."""

    maps: NDArray[np.float16]
    """Feature maps (n, r, c)."""
    pooled: NDArray[np.float16]
    """Pooled features (n, f)."""


@torch.inference_mode()
def record_answers(
    teacher: Callable[[Tensor], tuple[Tensor, Tensor]], images: ConcatImages, n: int, folder: Path, progress: Progress
) -> Answers:
    """Compute a teacher's outputs for the first n photos, resuming after an interruption."""
    folder.mkdir(parents=True, exist_ok=True)
    count = folder / "answered"
    done = int(count.read_text()) if count.is_file() else 0
    answers = [] if not done else [np.load(folder / f"{name}.npy", mmap_mode="r+") for name in ("maps", "pooled")]
    while done < n:
        chosen = np.arange(done, min(n, done + BATCH))
        told = [part.float().half().numpy() for part in teacher(pixels(images, chosen))]
        if not answers:
            answers = [
                np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.float16, shape=(n, *x.shape[1:]))
                for name, x in zip(("maps", "pooled"), told, strict=True)
            ]
        for stored, part in zip(answers, told, strict=True):
            stored[chosen] = part
        done = int(chosen[-1]) + 1
        if done == n or done % (50 * BATCH) == 0:
            for stored in answers:
                stored.flush()
            count.write_text(str(done))
        progress(done, n)
    return Answers(*answers)


def pixels(images: ConcatImages, chosen: NDArray[np.int64]) -> Tensor:
    """Return photos (b, 3, H, W) in [0, 1], all of one size."""
    canvas, _ = images.gather(chosen)
    return torch.from_numpy(canvas).permute(0, 3, 1, 2).float() / 255
