"""Batch normalisation folded into the convolution before it, for a network that only extracts features.

Its running statistics are constants then: w' = w s and b' = b s + t with s = scale / sqrt(variance + eps) and
t = shift - mean s. A pass over every map is saved: in bf16 a tenth of ResNet-12's time, a fifth of Conv-4's.
"""

import copy
from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from frn.backbones.backbone import Backbone

TOLERANCE = 1e-3
"""Tolerance, as a fraction of the largest number of the feature map; rounding is a thousandth of that."""


@torch.inference_mode()
def folded(backbone: Backbone, size: int) -> Backbone:
    """A copy of a backbone in evaluation mode without its batch normalisations; the same function up to rounding.

    A convolution and a normalisation that follow each other among a module's parts are taken for a pair. Where that is
    not how they are used, the copy's map of an image of `size` pixels is another, and the backbone itself is returned.
    """
    lean = copy.deepcopy(backbone)
    for module in list(lean.modules()):
        for (name, first), (after, second) in pairwise(list(module.named_children())):
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d) and _fit(first, second):
                setattr(module, name, fuse_conv_bn_eval(first, second))
                setattr(module, after, nn.Identity())
    return lean if _agree(backbone, lean, size) else backbone


def _fit(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> bool:
    return convolution.out_channels == norm.num_features and norm.running_mean is not None


def _agree(backbone: Backbone, lean: Backbone, size: int) -> bool:
    """Return whether both make the same feature map of noise, in the precision of the weights."""
    like = next(backbone.parameters())
    noise = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0)).to(like)
    with torch.autocast(like.device.type, enabled=False):
        expected, found = backbone(noise), lean(noise)
    return bool((expected - found).abs().max() <= TOLERANCE * expected.abs().max())
