"""A model: a backbone that makes feature maps, a head that compares them, and what both need to know of images."""

from pathlib import Path

import torch
from torch import Tensor, nn

from frn.backbones import build_backbone
from frn.backbones.pretrained import Pretrained
from frn.errors import FrnError
from frn.heads import build_head
from frn.model_file import ModelConfig


class Model(nn.Module):
    """A backbone and a head.

    `config` says how to build it again; `record` is where it comes from (data, preset, accuracy, ...), as plain data.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.record: dict[str, object] = {}
        self.backbone = build_backbone(config.backbone, last_pool=config.last_pool, size=config.transform.size)
        self.d = int(self.backbone.d)  # type: ignore[arg-type]
        self.head = build_head(config.method, self.d)
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)

    def feature_maps(self, images: Tensor) -> Tensor:
        """Return feature maps (b, r, d) of RGB images (b, 3, H, W) in [0, 1].

        In float32 at least, also under autocast: what follows is the closed form.

        Raises:
            FrnError: if the images are too small to leave a single location.
        """
        stride = int(self.backbone.stride)  # type: ignore[arg-type]
        if min(images.shape[-2:]) < stride:
            raise FrnError(f"images of {tuple(images.shape[-2:])} pixels are too small: the least is {stride}")
        normalised = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        maps: Tensor = self.backbone(normalised)
        maps = maps.to(torch.promote_types(maps.dtype, torch.float32)).flatten(2).mT  # b, r, d
        scale = self.map_scale(self.head)
        return maps if scale == 1.0 else maps / scale

    def map_scale(self, head: nn.Module) -> float:
        """What maps of this backbone are divided by for a head (SM, Hyperparameters)."""
        return float(self.backbone.map_scale) if head.scaled_maps else 1.0  # type: ignore[arg-type]

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the feature map of an image of the model's own size."""
        if isinstance(self.backbone, Pretrained):
            return self.backbone.grid
        side = self.config.transform.size // int(self.backbone.stride)  # type: ignore[arg-type]
        return side, side


def load_model(path: str | Path) -> Model:
    """Load a model in evaluation mode: a `.safetensors` file, an authors' `.pth` file, or a shipped name.

    Raises:
        FrnError: if there is no such model, or the file is not one.
    """
    from frn.checkpoints import load  # checkpoints stands above this module and builds Models

    return load(path)
