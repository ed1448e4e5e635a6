"""The teacher, and its outputs for one view of each photo, which are computed once and stored in half precision.

Shape letters: n photos, b photos of a batch, S pixels of a side, (h, w) a map, c its channels, f pooled features.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from frn.backbones.pretrained import TimmMaps, recipe
from frn.data.augmentation import Augmentation
from frn.data.batch_augmentation import augment
from frn.data.pixel_cache import ConcatImages
from frn.errors import FrnError
from frn.models.model import read_weights

SIDE = 160
"""Pixels of a side of a view."""
VIEW = Augmentation(size=SIDE, crop="resized", scale=(0.35, 1.0), jitter=0.25)
INDICES = (2, 3, 4)
"""The teacher's maps that the student's stages reproduce, by timm's numbers."""
BATCH = 64

Progress = Callable[[int, int], None]
Stored = NDArray[Any]


class Teacher(nn.Module):
    """A frozen network of timm."""

    mean: Tensor
    std: Tensor
    net: Any

    def __init__(self, name: str, file: Path) -> None:
        """Load the weights from a file. Raises FrnError if the weights belong to a different network."""
        super().__init__()
        source, _, own = name.partition(":")
        if source != "timm":
            raise FrnError(f"{name}: a teacher must be named timm:NAME")
        import timm

        how = recipe(name, file)
        self.register_buffer("mean", torch.tensor(how.mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(how.std).view(3, 1, 1))
        self.net = timm.create_model(own)
        try:
            self.net.load_state_dict(TimmMaps.renamed(own, read_weights(file), self.net))
        except RuntimeError as error:
            raise FrnError(f"{file}: does not belong to {name} ({str(error).splitlines()[-1].strip()})") from error
        self.requires_grad_(False).eval().to(memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> list[Tensor]:
        """Return the maps (b, h, w, c) of the stages, and pooled features (b, f), of images (b, 3, S, S) in [0, 1]."""
        x = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        last, maps = self.net.forward_intermediates(x, indices=INDICES)
        return [*(each.permute(0, 2, 3, 1) for each in maps), last.mean((2, 3))]


@torch.inference_mode()
def record_views(teacher: nn.Module, images: ConcatImages, folder: Path, seed: int, progress: Progress) -> list[Stored]:
    """Store a view of each photo (n, S, S, 3) in grey levels, and the teacher's outputs, in random order.

    An interrupted call continues in the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count, n = folder / "recorded", len(images)
    done = int(count.read_text()) if count.is_file() else 0
    stored: list[Stored] = [np.load(file, mmap_mode="r+") for file in sorted(folder.glob("part-*.npy"))] if done else []
    order = np.random.default_rng(seed).permutation(n)
    while done < n:
        rows = slice(done, min(n, done + BATCH))
        views = augment(*images.gather(order[rows]), VIEW, np.random.default_rng([seed, done])).mul(255).round()
        parts = [views.byte().permute(0, 2, 3, 1), *(told.half() for told in teacher(views / 255))]
        if not stored:
            for place, part in enumerate(parts):
                kind, file = np.float16 if place else np.uint8, folder / f"part-{place}.npy"
                stored.append(np.lib.format.open_memmap(file, mode="w+", dtype=kind, shape=(n, *part.shape[1:])))
        for whole, part in zip(stored, parts, strict=True):
            whole[rows] = part.numpy()
        done = rows.stop
        if done == n or done % (50 * BATCH) == 0:
            for whole in stored:
                whole.flush()  # type: ignore[attr-defined]
            count.write_text(str(done))
        progress(done, n)
    return stored


def to_images(stored: Stored) -> Tensor:
    """Return stored views, as a network with mean and std 0.5 sees them, or stored maps, as tensors (b, c, h, w)."""
    x = to_tensor(stored)
    return (x / 127.5 - 1 if stored.dtype == np.uint8 else x).permute(0, 3, 1, 2)


def to_tensor(stored: Stored) -> Tensor:
    """Return stored numbers as float32."""
    return torch.from_numpy(np.asarray(stored, dtype=np.float32))
