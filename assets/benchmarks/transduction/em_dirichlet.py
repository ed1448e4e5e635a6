"""EM-Dirichlet: each class is a Dirichlet distribution of probability vectors (Martin et al., CVPR 2024).

The authors' vectors are the probabilities that CLIP gives to the names of classes. There are no names here, so the
vectors are the probabilities of the class means, at the authors' temperature of 30.
"""

import numpy as np
import torch
from torch import Tensor

from transduction import Floats, softmax, unit

TEMPERATURE, STEPS, INNER = 30.0, 20, 1000


def label(supports: Floats, queries: Floats) -> Floats:
    """Return shares (q, way) after alternating between Dirichlet parameters and shares."""
    way, shot, d = supports.shape
    prototypes = unit(supports.mean(1)).T
    examples, others = (
        torch.from_numpy(softmax(TEMPERATURE * unit(vectors).astype(float) @ prototypes))
        for vectors in (supports.reshape(-1, d), queries)
    )
    return np.asarray(fit((examples + 1e-15).log().reshape(way, shot, way), (others + 1e-15).log(), others).numpy())


def fit(supports: Tensor, queries: Tensor, shares: Tensor) -> Tensor:
    """Return shares (q, way) for logarithms of probabilities, supports (way, shot, way) and queries (q, way)."""
    alphas = torch.ones_like(supports[:, 0])
    for _ in range(STEPS):
        weights = shares.sum(0) + supports.shape[1]
        alphas = dirichlet(alphas, (shares.T @ queries + supports.sum(1)) / weights[:, None])
        preference = (shares.mean(0) + 1e-15).log() + 1
        likely = alphas.sum(-1).lgamma() - alphas.lgamma().sum(-1) + queries @ (alphas - 1).T
        shares = (likely + preference).softmax(1)
    return shares


def dirichlet(alphas: Tensor, mean_logs: Tensor) -> Tensor:
    """Return parameters (way, k) that fit the mean logarithms (way, k), by majorisation from parameters before."""
    for step in range(INNER):
        before, digammas = alphas, (alphas + 1).digamma()
        curve = (2 * (digammas * alphas - (alphas + 1).lgamma()) / alphas.square()).abs()
        slope = digammas - alphas.sum(-1, keepdim=True).digamma() - curve * alphas - mean_logs
        alphas = ((slope.square() + 4 * curve).sqrt() - slope) / (2 * curve)
        if step and step % 50 == 0 and (alphas - before).square().sum() < 1e-11 * before.square().sum():
            break
    return alphas
