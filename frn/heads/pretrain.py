"""Head over all classes at once, for pre-training (Sec. 3.6, Eq. 12 and 13); discarded afterwards.

Shape letters: b images in a batch, r locations, d channels.
"""

import torch
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
