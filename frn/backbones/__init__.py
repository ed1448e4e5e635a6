"""Feature extractors. A new backbone needs a file here, a line in `BACKBONES`, and a test.

All backbones implement `backbone.Backbone`. Frozen networks from other libraries are named `torchvision:NAME` and
`timm:NAME` (`pretrained.py`).
"""

from collections.abc import Callable
from functools import partial

from frn.backbones.backbone import Backbone, build_registered, registered
from frn.backbones.conv4 import Conv4
from frn.backbones.litenet import LiteNet
from frn.backbones.pretrained import ADAPTERS, Pretrained
from frn.backbones.resnet12 import PATCHES, SMALL, WIDE_PATCHES, ResNet12
from frn.errors import FrnError

BACKBONES: dict[str, Callable[..., Backbone]] = {
    "conv4": Conv4,
    "resnet12": ResNet12,
    "resnet12-small": partial(ResNet12, SMALL),
    "resnet9-patch4": partial(ResNet12, PATCHES, stem=4),
    "resnet9-patch4-wide": partial(ResNet12, WIDE_PATCHES, stem=4),
    "resnet9-patch6-wide": partial(ResNet12, WIDE_PATCHES, stem=6),
    "litenet": LiteNet,
}


def build_backbone(name: str, *, last_pool: bool = True, size: int = 84) -> Backbone:
    """Return a new backbone with random weights; only backbones from other packages use `size`.

    Raises FrnError if no backbone has that name.
    """
    if name.partition(":")[0] in ADAPTERS:
        return Pretrained(name, size)
    if name in BACKBONES:
        return BACKBONES[name](last_pool=last_pool)
    if (entry := (others := registered()).get(name)) is not None:
        return build_registered(entry, size)
    raise FrnError(f"unknown backbone {name!r}; choose one of: {', '.join([*BACKBONES, *others])}")
