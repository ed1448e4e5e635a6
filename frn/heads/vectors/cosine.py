"""Nearest cosine prototype, trained in episodes.

Gidaris and Komodakis (CVPR 2018) classify by cosines. Meta-Baseline (Chen et al., ICCV 2021) trains a nearest cosine
prototype in episodes, with a learned temperature that starts at 10. Its prototype is the mean of the supports'
features; here it is the mean of the L2-normalised features. Baseline++ (Chen et al., ICLR 2019) is another method: it
fits a layer to the supports by gradient descent.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import vectors


class CosineHead(Head):
    """Head that scores a query by its cosine with each class's prototype, times the temperature gamma.

    The prototype is the mean of the supports' unit vectors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor(10.0))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        directions = F.normalize(F.normalize(vectors(support, pooled=True), dim=-1).mean(1), dim=-1)  # way, d
        return self.gamma * F.normalize(vectors(query, pooled=True), dim=-1) @ directions.mT
