"""SimpleShot (Wang et al., 2019): nearest centroid of centred, length-normalised features (CL2N)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import squared_distances, vectors


class SimpleShotHead(Head):
    """Head that scores a query by its squared distance to each class's centroid on the unit sphere.

    The centre is the mean of the training images' features: a running mean, saved with the weights.
    """

    momentum = 0.05

    centre: Tensor

    def __init__(self, d: int) -> None:
        """Use average-pooled features of d channels."""
        super().__init__()
        self.register_buffer("centre", torch.zeros(d))
        self.gamma = nn.Parameter(torch.tensor(10.0))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        members, queries = vectors(support, pooled=True), vectors(query, pooled=True)
        if self.training:
            mean = torch.cat([members.flatten(0, 1), queries]).mean(0).detach()
            self.centre.lerp_(mean.to(self.centre.dtype), self.momentum)
        prototypes = F.normalize(members - self.centre, dim=-1).mean(1)
        return -self.gamma * squared_distances(F.normalize(queries - self.centre, dim=-1), prototypes)
