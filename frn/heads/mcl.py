"""MCL, mutual centralized learning (Liu et al., CVPR 2022): the score of a class is the centrality of its locations.

The formulas follow the authors' code (LouieYang/MCL). A random walk alternates between the query's locations and the
locations of all classes; the probability of a step grows with the cosine. The probability of a class is the share of
its locations in the Katz centrality of all classes. The head has no learned parameters.

Shape letters: way classes, r locations per map, q queries.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from frn.heads.head import Head

KATZ = 0.5
"""Weight of each further step of the walk."""
TO_CLASSES, TO_QUERY = 20.0, 10.0
"""Temperatures of the steps (with `KATZ`, the defaults of the authors' code)."""
FINE_GRAINED = 40.0
"""`TO_CLASSES` in the authors' configurations for birds and iNaturalist."""


class MCLHead(Head):
    """Scores a query by the log share of centrality of each class's locations. A class is its mean map."""

    unequal = "mean"

    def __init__(self, to_classes: float = TO_CLASSES) -> None:
        """Set the temperature of the steps to the classes."""
        super().__init__()
        self.to_classes = to_classes

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = F.normalize(support.mean(1), dim=-1)  # way, r, d
        cosines = F.normalize(query, dim=-1) @ prototypes.flatten(0, 1).mT  # q, r, way * r
        to_classes = (self.to_classes * cosines).softmax(2)  # each row holds the steps from one location of the query
        to_query = (TO_QUERY * cosines).softmax(1)  # each column holds the steps from one location of a class
        system = torch.eye(query.shape[1], dtype=query.dtype, device=query.device) - KATZ**2 * to_query @ to_classes.mT
        of_query = torch.linalg.solve(system, 1 + KATZ * to_query.sum(2, keepdim=True))  # q, r, 1
        of_classes = (of_query.mT @ to_classes)[:, 0]  # q, way * r
        of_classes = of_classes.unflatten(1, prototypes.shape[:2]).sum(2)
        return (of_classes / of_classes.sum(1, keepdim=True)).log()
