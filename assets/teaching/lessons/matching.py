"""The student's losses: it matches a teacher's maps, pooled features, classes and neighbours, and learns FRN episodes.

Shape letters: b views, r locations of the student's map, d its channels, c the teacher's, f its pooled features.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SOFTENED = 1.5
"""Temperature of the class probabilities of teacher and student."""
SHARPENED = 0.1
"""Temperature of the similarities between the views in a batch."""
CLIP = 2.0
"""Norm to which the gradient of a step is clipped."""


class Student(nn.Module):
    """Layers that are needed only to train the backbone, and the running mean of the backbone, which is kept."""

    def __init__(self, backbone: nn.Module, d: int, c: int, f: int, classes: int, own_d: int) -> None:
        super().__init__()
        self.maps, self.pooled = nn.Linear(d, c), nn.Linear(d, f)
        self.classes, self.own = nn.Linear(d, classes), nn.Linear(d, own_d)
        if own_d == d:
            nn.init.eye_(self.own.weight)
        self.averaged = copy.deepcopy(backbone).requires_grad_(False)

    def average(self, backbone: nn.Module, kept: float) -> None:
        """Move the running mean of weights and statistics towards the current ones of the backbone."""
        move_average(self.averaged, backbone, kept)


@torch.no_grad()
def move_average(averaged: nn.Module, network: nn.Module, kept: float) -> None:
    """Move a running mean of weights and statistics towards the current ones, of which it keeps a share."""
    other = network.state_dict()
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

    def forward(self, locations: Tensor) -> Tensor:
        """Whiten locations (..., c)."""
        whitened: Tensor = (locations - self.mean) @ self.directions
        return whitened


def unlike(student: Tensor, teacher: Tensor) -> Tensor:
    """Return one minus the mean cosine similarity of features (..., c)."""
    return 1 - F.cosine_similarity(student.float(), teacher, dim=-1).mean()


def neighbour_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """Return how much the similarities between views differ in two kinds of features, (b, d) and (b, f)."""
    others = ~torch.eye(len(student), dtype=torch.bool, device=student.device)
    own, told = (F.log_softmax(_likeness(x)[others].view(len(x), -1) / SHARPENED, 1) for x in (student, teacher))
    return F.kl_div(own, told, reduction="batchmean", log_target=True)


def _likeness(features: Tensor) -> Tensor:
    unit = F.normalize(features - features.mean(0), dim=1)
    return unit @ unit.mT


def seen_through(maps: Tensor, views: Tensor, side: int) -> Tensor:
    """Return the parts (b, side * side, c) of square maps (b, r, c) inside views, which are affine maps (b, 2, 3)."""
    b, r, c = maps.shape
    grid = F.affine_grid(views, [b, c, side, side], align_corners=False)
    square = maps.mT.unflatten(2, (round(r**0.5), -1))
    return F.grid_sample(square, grid, padding_mode="border", align_corners=False).flatten(2).mT
