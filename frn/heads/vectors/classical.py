"""Common classifiers on the pooled features of the same network, fitted to every episode.

A feature is the mean over the locations of a map, scaled to length one. Free parameters are chosen from the supports:
the penalty of `logreg` by cross-validation, that of `ridge-loo` by leave-one-out. With one support per class this is
impossible, so both are `USUAL`.

`baseline` and `baseline++` are those of Chen et al. (ICLR 2019), with the steps of their code
(wyharveychen/CloserLookFewShot): SGD fits a linear layer or, on features of length one, one with normalised weights.

Shape letters: way classes, q queries, r locations, d channels, n = way * shot supports, m = min(n, d), b problems that
are solved together.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from frn.heads.head import Head
from frn.heads.vectors import squared_distances, vectors

USUAL = 1.0
"""C and the ridge penalty for classes with one support."""
CS = (1.0, 10.0, 100.0, 1000.0)
PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FOLDS = 3
STEPS = 100
EPOCHS, BATCH = 100, 4
SCALE = 2.0
"""Temperature of Baseline++ in its authors' code, for up to 200 classes."""
NEIGHBOURS = 5

Fit = Callable[[Tensor, Tensor], Tensor]
"""Scores queries (q, d) against supports (way, shot, d): (q, way). All vectors have length one, except for
`baseline`.
"""


def nearest_mean(support: Tensor, query: Tensor) -> Tensor:
    """Score by the negative squared distance to the mean of each class."""
    return -squared_distances(query, support.mean(1))


def nearest_neighbours(support: Tensor, query: Tensor) -> Tensor:
    """Sum the cosines of the nearest supports of all classes, by class."""
    way, shot = support.shape[:2]
    cosines = query @ support.flatten(0, 1).mT
    nearest = cosines.topk(min(NEIGHBOURS, shot), dim=1)
    votes = torch.zeros(query.shape[0], way, dtype=query.dtype, device=query.device)
    return votes.scatter_add(1, nearest.indices // shot, nearest.values)


def ridge(support: Tensor, query: Tensor) -> Tensor:
    """Score by ridge regression of the labels, with the penalty that minimises the squared leave-one-out error."""
    way, shot = support.shape[:2]
    (u, s, v), labels, queries = _centred(support, query)
    targets = labels - 1 / way
    penalties = torch.tensor(PENALTIES if shot > 1 else (USUAL,), dtype=s.dtype, device=s.device)
    kept = s**2 / (s**2 + penalties[:, None])  # b, m
    fitted = (u * kept[:, None]) @ (u.mT @ targets)
    leverage = u.square() @ kept.mT + 1 / len(u)  # n, b; the mean is fitted as well
    left_out = (targets - fitted) / (1 - leverage.mT[..., None]).clamp_min(1e-6)
    best = penalties.index_select(0, left_out.square().sum((1, 2)).argmin(0, keepdim=True))
    return queries @ v @ ((s / (s**2 + best))[:, None] * (u.mT @ targets))


def logistic(support: Tensor, query: Tensor) -> Tensor:
    """Score by logistic regression with an L2 penalty; C maximises the likelihood of held-out supports."""
    shot = support.shape[1]
    (u, s, v), labels, queries = _centred(support, query)
    features, best = u * s, USUAL
    if shot > 1:
        folds = min(FOLDS, shot)
        fold = torch.arange(len(u), device=u.device) % shot % folds
        held_out = (fold == torch.arange(folds, device=u.device)[:, None]).repeat(len(CS), 1)  # b, n
        c = torch.tensor(CS, dtype=s.dtype, device=s.device).repeat_interleave(folds)
        likely = (features @ _fit_logistic(features, labels, ~held_out, c)).log_softmax(-1).mul(labels).sum(-1)
        best = CS[int((likely * held_out).sum(1).unflatten(0, (-1, folds)).sum(1).argmax())]
    weights = _fit_logistic(features, labels, torch.ones_like(features[None, :, 0]), features.new_tensor([best]))
    return queries @ v @ weights[0]


def _fit_logistic(features: Tensor, labels: Tensor, used: Tensor, c: Tensor) -> Tensor:
    """Return weights (b, m, way) of penalised problems, from orthogonal features (n, m), labels (n, way), used (b, n).

    The Hessian is at most C / 2 X^T X + I, which is diagonal here (Boehning, 1992). Its steps use Nesterov
    acceleration.
    """
    chosen = used.to(features.dtype)[..., None] * c[:, None, None]
    bound = 1 + c[:, None] / 2 * features.square().sum(0)
    weights = ahead = features.new_zeros(len(c), features.shape[1], labels.shape[1])
    for step in range(STEPS):
        gradient = features.mT @ (chosen * ((features @ ahead).softmax(-1) - labels)) + ahead
        before, weights = weights, ahead - gradient / bound[..., None]
        ahead = weights + step / (step + 3) * (weights - before)
    return weights


def baseline(support: Tensor, query: Tensor) -> Tensor:
    """Fit a linear layer to features scaled to a mean square of 1, because the rate depends on it (Baseline)."""
    scale = support.square().mean().sqrt()
    return _fitted(support / scale, query / scale, normalised=False)


def baseline_plus(support: Tensor, query: Tensor) -> Tensor:
    """Fit a linear layer with separate length and direction of its weights, to features of length one (Baseline++)."""
    return _fitted(SCALE * support, SCALE * query, normalised=True)


def _fitted(support: Tensor, query: Tensor, *, normalised: bool) -> Tensor:
    """Return scores (q, way) of a layer after `EPOCHS` of SGD on the supports; equal episodes give equal scores."""
    way, shot, d = support.shape
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode(False), torch.enable_grad():
        examples = support.flatten(0, 1).clone()
        labels = torch.arange(way, device=support.device).repeat_interleave(shot)
        layer: nn.Module = nn.Linear(d, way, bias=not normalised)
        for weights in layer.parameters():
            nn.init.uniform_(weights, -(d**-0.5), d**-0.5, generator=generator)
        layer = layer.to(examples)
        layer = weight_norm(layer, dim=0) if normalised else layer
        optimizer = torch.optim.SGD(layer.parameters(), 0.01, momentum=0.9, dampening=0.9, weight_decay=0.001)
        for _ in range(EPOCHS):
            for batch in torch.randperm(way * shot, generator=generator).split(BATCH):
                optimizer.zero_grad()
                F.cross_entropy(layer(examples[batch]), labels[batch]).backward()
                optimizer.step()
        return layer(query.clone()).detach()


def _centred(support: Tensor, query: Tensor) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
    """Return the SVD (n, m), (m,), (d, m) of the centred supports, labels (n, way), and rotated queries."""
    way, shot = support.shape[:2]
    examples = support.flatten(0, 1).double()
    mean = examples.mean(0)
    u, s, vh = torch.linalg.svd(examples - mean, full_matrices=False)
    labels = F.one_hot(torch.arange(way, device=u.device).repeat_interleave(shot), way).double()
    return (u, s, vh.mT), labels, query.double() - mean


class ClassicalHead(Head):
    """One of these classifiers as a head."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self.fit = fit
        self.unequal = "repeat" if fit is nearest_mean else ""

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        examples, queries = (vectors(maps, pooled=True) for maps in (support, query))
        if self.fit is baseline:
            return self.fit(examples, queries)
        return self.fit(F.normalize(examples, dim=-1), F.normalize(queries, dim=-1))


CLASSICAL: dict[str, Fit] = {
    "logreg": logistic,
    "ridge-loo": ridge,
    "knn": nearest_neighbours,
    "nearest-mean": nearest_mean,
    "baseline": baseline,
    "baseline++": baseline_plus,
}
