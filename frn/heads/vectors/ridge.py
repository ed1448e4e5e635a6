"""Ridge regression from features to labels: R2-D2 (Bertinetto et al., 2019), MetaOptNet-RR (Lee et al., 2019).

FRN regresses a query's features on the supports; this head regresses the labels of all supports on their features. The
penalty and a scale and offset of the logits are learned, as in R2-D2's paper. The offset is the same for all classes,
so it does not change the answer.

Only the head is R2-D2's. The backbone is shared with the other methods and gives one map; R2-D2 concatenates its last
two. R2-D2's code has a bias per class (a column of ones) and a fixed penalty of 50. It also divides features and labels
by the root of the number of supports, so the penalty grows with that number; here, as in the paper, it does not.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.heads.head import Head
from frn.heads.vectors import vectors


class RidgeHead(Head):
    """Head that scores a query by the label that ridge regression on the supports predicts."""

    def __init__(self, *, pooled: bool) -> None:
        """Use average-pooled maps (ResNet-12) or whole flattened ones (Conv-4)."""
        super().__init__()
        self.pooled = pooled
        self.log_lam = nn.Parameter(torch.zeros(()))
        self.gamma = nn.Parameter(torch.ones(()))
        self.offset = nn.Parameter(torch.zeros(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        way, shot = support.shape[:2]
        examples = vectors(support, pooled=self.pooled).flatten(0, 1).double()  # way * shot, n
        queries = vectors(query, pooled=self.pooled)
        labels = F.one_hot(torch.arange(way, device=query.device).repeat_interleave(shot), way).double()
        identity = torch.eye(examples.shape[0], dtype=examples.dtype, device=examples.device)
        ridge = examples @ examples.mT + self.log_lam.double().exp() * identity
        dual = torch.cholesky_solve(labels, torch.linalg.cholesky(ridge))
        weights = examples.mT @ dual  # n, way: X^T (X X^T + lambda I)^-1 Y
        return self.gamma * (queries @ weights.to(queries.dtype)) + self.offset
