"""Networks of others by short names, for `frn models add`: what they are and what their licences say. Data only."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A network that others have trained."""

    backbone: str
    """`torchvision:NAME` or `timm:NAME`."""
    about: str
    licence: str = "not stated in this list: see its makers"
    size: int | None = None
    """Side of the images in pixels; None takes that of the weights' own recipe."""


_TORCHVISION = "BSD-3-Clause (torchvision); trained on ImageNet-1k, which is for research"

CATALOGUE = {
    "dinov2-small": Network(
        backbone="timm:vit_small_patch14_dinov2.lvd142m",
        about="ViT-S/14, trained without labels on 142 million photos (LVD-142M); slow",
        licence="Apache-2.0",
        size=224,
    ),
    "convnext-tiny": Network(
        backbone="torchvision:convnext_tiny", about="ConvNeXt-T, ImageNet-1k", licence=_TORCHVISION
    ),
    "resnet50": Network(backbone="torchvision:resnet50", about="ResNet-50, ImageNet-1k", licence=_TORCHVISION),
    "resnet18": Network(backbone="torchvision:resnet18", about="ResNet-18, ImageNet-1k", licence=_TORCHVISION),
    "efficientnet-lite": Network(
        backbone="timm:efficientnet_lite0.ra_in1k",
        about="EfficientNet-Lite0, ImageNet-1k: for small devices",
        licence="Apache-2.0; trained on ImageNet-1k, which is for research",
    ),
    "mobilenetv3": Network(
        backbone="torchvision:mobilenet_v3_large",
        about="MobileNetV3-Large, ImageNet-1k: for small devices",
        licence=_TORCHVISION,
    ),
}
