"""Heads over all classes at once, for pre-training (Sec. 3.6) or in addition to episodes; discarded afterwards.

Shape letters: b images in a batch, r locations, d channels.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.frn import FRNHead
from frn.ridge.reconstruction import class_error


class DummyMapHead(nn.Module):
    """FRN pre-training head: a learned map M_c replaces the pool of each class and reconstructs its images.

    Lambda and rho are those of the FRN head with alpha = beta = 0 and r pool rows; gamma is the head's own.
    """

    def __init__(self, classes: int, r: int, d: int) -> None:
        """Start from standard normal maps, as the authors' code does."""
        super().__init__()
        self.dummy_maps = nn.Parameter(torch.randn(classes, r, d))

    def forward(self, feature_maps: Tensor, head: FRNHead) -> Tensor:
        """Return logits (b, classes) from feature maps (b, r, d)."""
        error = class_error(feature_maps, self.dummy_maps, lam=head.lam(*self.dummy_maps.shape[1:]), rho=head.rho())
        return -head.gamma * error


class CosineHead(nn.Module):
    """Cosine classifier of average-pooled maps, with one vector per class, initialised to the class's mean map.

    The lengths affect only the learning rate: the direction of a shorter vector changes faster.
    """

    LENGTH, SCALE = 0.3, 10.0
    """Length of the vectors, which turn ten times as fast as at length 1, and initial scale of the cosines."""

    def __init__(self, classes: int, d: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(classes, d))
        self.scale = nn.Parameter(torch.tensor(self.SCALE))

    @torch.no_grad()
    def begin_with(self, means: Tensor) -> None:
        """Set the vectors to these means (classes, d), scaled to `LENGTH`."""
        self.vectors.copy_(self.LENGTH * F.normalize(means, dim=-1))

    def forward(self, feature_maps: Tensor) -> Tensor:
        """Return logits (b, classes) from feature maps (b, r, d)."""
        return self.scale * F.normalize(feature_maps.mean(1), dim=-1) @ F.normalize(self.vectors, dim=-1).mT
