"""Heads for pre-training on all classes at once (Sec. 3.6). They are left behind when episodes begin.

Shape letters: b images of a batch, r locations, d channels.
"""

import torch
from torch import Tensor, nn

from frn.heads.frn import FRNHead
from frn.ridge.reconstruction import class_error


class DummyMapHead(nn.Module):
    """FRN pre-training: a learned map M_c stands in for the pool of each class, and rebuilds its images.

    Lambda and rho are those of the FRN head with alpha and beta at zero and r pool rows; gamma is the head's.
    """

    def __init__(self, classes: int, r: int, d: int) -> None:
        """Start from standard normal maps, as the authors' code does."""
        super().__init__()
        self.dummy_maps = nn.Parameter(torch.randn(classes, r, d))

    def forward(self, feature_maps: Tensor, head: FRNHead) -> Tensor:
        """Return logits (b, classes) from feature maps (b, r, d)."""
        error = class_error(feature_maps, self.dummy_maps, lam=head.lam(*self.dummy_maps.shape[1:]), rho=head.rho())
        return -head.gamma * error


class AveragePoolHead(nn.Module):
    """The classical way: a linear classifier on average-pooled maps."""

    def __init__(self, classes: int, d: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(d, classes)

    def forward(self, feature_maps: Tensor) -> Tensor:
        """Return logits (b, classes) from feature maps (b, r, d)."""
        logits: Tensor = self.classifier(feature_maps.mean(1))
        return logits
