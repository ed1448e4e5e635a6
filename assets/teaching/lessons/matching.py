"""How a student's features are compared with a teacher's, the running mean of weights, and the optimizer.

Shape letters: b views, d channels of the student, f features of the teacher, c channels of both.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SHARPENED = 0.1  # temperature of the similarities between the views in a batch
CLIP = 2.0  # norm to which the gradient of a step is clipped
AVERAGING = 0.998  # fraction of the running mean of the weights that is kept in each step
MOMENTUM = 0.95  # fraction of Muon's momentum that is kept in each step


@torch.no_grad()
def move_average(averaged: nn.Module, network: nn.Module, step: int) -> None:
    """Move a running mean of weights and statistics towards the current ones, faster in the first steps."""
    other, kept = network.state_dict(), min(AVERAGING, (1 + step) / (10 + step))
    for name, value in averaged.state_dict().items():
        value.lerp_(other[name], 1 - kept) if value.is_floating_point() else value.copy_(other[name])


class Whitening(nn.Module):
    """Centres a teacher's features and multiplies them by C^(-1/4), where C is their covariance."""

    mean: Tensor
    directions: Tensor

    def __init__(self, sample: Tensor) -> None:
        """Fit the whitening to a sample of locations (n, c)."""
        super().__init__()
        mean = sample.mean(0)
        centred = sample - mean
        values, vectors = torch.linalg.eigh(centred.mT @ centred / len(sample))
        scales = (values + 0.02 * values.mean()).pow(-0.25)
        self.register_buffer("mean", mean)
        self.register_buffer("directions", vectors * scales @ vectors.mT)
        self.spread = self(sample).square().mean().item()

    def forward(self, locations: Tensor) -> Tensor:
        """Whiten locations (..., c)."""
        whitened: Tensor = (locations - self.mean) @ self.directions
        return whitened

    def error(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Return the squared error of whitened maps (..., c) as a share of the teacher's variance."""
        return (self(student) - self(teacher)).square().mean() / self.spread

    def distance(self, student: Tensor, teacher: Tensor) -> Tensor:
        """Return one minus the cosine of whitened locations (..., c), on average."""
        return 1 - F.cosine_similarity(self(student), self(teacher), dim=-1).mean()


def neighbour_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """Return how much the similarities between views differ in two kinds of features, (b, d) and (b, f)."""
    others = ~torch.eye(len(student), dtype=torch.bool, device=student.device)
    ours, theirs = (F.log_softmax(_likeness(x)[others].view(len(x), -1) / SHARPENED, 1) for x in (student, teacher))
    return F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


def _likeness(features: Tensor) -> Tensor:
    unit = F.normalize(features - features.mean(0), dim=1)
    return unit @ unit.mT


class MuonAdamW(torch.optim.AdamW):
    """AdamW; in groups with `muon`, the convolutions of one pixel have an orthogonalised momentum instead (Muon).

    Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024. The factor of the rate gives
    a step the size that it has with AdamW (Liu et al., Muon is Scalable for LLM Training, 2025).
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take a step; the gradients of the groups with `muon` are used up."""
        for group in self.param_groups:
            for weights in group["params"] if group.get("muon") else ():
                if weights.grad is None:
                    continue
                state = self.state[weights]
                if not state:  # AdamW expects a step in every state that it loads
                    state.update(step=torch.tensor(0.0), momentum=torch.zeros_like(weights))
                momentum = state["momentum"].lerp_(weights.grad, 1 - MOMENTUM)
                direction = orthogonalised(weights.grad.lerp(momentum, MOMENTUM).flatten(1))
                size = 0.2 * math.sqrt(max(direction.shape))
                weights.mul_(1 - group["lr"] * group["weight_decay"])
                weights.add_(direction.view_as(weights), alpha=-group["lr"] * size)
                weights.grad = None  # so that AdamW leaves these weights alone
        return super().step(closure)


def orthogonalised(matrix: Tensor) -> Tensor:
    """Return a matrix with the same singular vectors as (m, n), whose singular values are all near one.

    Five Newton-Schulz steps with the coefficients of Muon, after which the values lie between about 0.7 and 1.2.
    """
    x = (matrix.mT if len(matrix) > matrix.shape[1] else matrix) / (matrix.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if len(matrix) > matrix.shape[1] else x
