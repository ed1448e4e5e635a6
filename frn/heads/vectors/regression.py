"""Heads that solve a ridge regression on one vector per image: DSN, and R2-D2's regression of the labels."""

import torch
from torch import Tensor, nn

from frn.heads.head import Head, in_float
from frn.heads.vectors import vectors
from frn.ridge.reconstruction import location_error


class DSNHead(Head):
    """Head that scores a query by its squared distance to the subspace of each class's supports.

    These are Deep Subspace Networks (Simon et al., CVPR 2020), as in the paper's baseline (supplement, Implemented
    Baselines): FRN with r = 1, where each image is one vector, and a small fixed lambda. Every subspace contains the
    origin; the original method moves it to the class's mean. Logits are divided by the number of dimensions and
    multiplied by the temperature gamma.
    """

    lam = 0.01
    """Lambda: "for sufficiently small regularizer lambda; we use 0.01" (supplement)."""

    unequal = "repeat"
    has_auxiliary_loss = True

    def __init__(self, *, pooled: bool) -> None:
        """Compare average-pooled maps (ResNet-12) or whole flattened ones (Conv-4)."""
        super().__init__()
        self.pooled = pooled
        self.gamma = nn.Parameter(torch.ones(()))

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        pool = vectors(support, pooled=self.pooled)  # way, shot, dimensions
        error = location_error(vectors(query, pooled=self.pooled), pool, self.lam, 1.0)
        return -self.gamma * (error.mT / pool.shape[-1])

    def auxiliary_supports(self, support: Tensor) -> Tensor:
        """Return the compared vectors, (way, shot, 1, dimensions): the paper's "actual (normalized) support points"."""
        return vectors(in_float(support), pooled=self.pooled).unsqueeze(2)


class RidgeHead(Head):
    """Head that scores a query by the label that ridge regression on the supports predicts.

    FRN regresses a query's features on the supports; this head regresses the labels of all supports on their features,
    as R2-D2 (Bertinetto et al., 2019) and MetaOptNet-RR (Lee et al., 2019) do. The penalty and a scale and offset of
    the logits are learned, as in R2-D2's paper. The offset is the same for all classes, so it does not change the
    answer.

    Only the head is R2-D2's. The backbone is shared with the other methods and gives one map; R2-D2 concatenates its
    last two. R2-D2's code has a bias per class (a column of ones) and a fixed penalty of 50. It also divides features
    and labels by the root of the number of supports, so the penalty grows with that number; here, as in the paper, it
    does not.
    """

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
        labels = torch.eye(way, dtype=examples.dtype, device=query.device).repeat_interleave(shot, 0)
        identity = torch.eye(examples.shape[0], dtype=examples.dtype, device=examples.device)
        ridge = examples @ examples.mT + self.log_lam.double().exp() * identity
        dual = torch.cholesky_solve(labels, torch.linalg.cholesky(ridge))
        weights = examples.mT @ dual  # n, way: X^T (X X^T + lambda I)^-1 Y
        return self.gamma * (queries @ weights.to(queries.dtype)) + self.offset
