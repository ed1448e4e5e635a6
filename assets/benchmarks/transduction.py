"""Transductive few-shot methods on pooled features.

Each takes supports (way, shot, d) and queries (q, d) and returns the shares (q, way) of the classes for each query.
Parameters are the published ones for 5 classes and 75 queries.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.floating]


def unit(vectors: Floats) -> Floats:
    """Scale vectors (..., d) to unit length."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def softmax(logits: Floats) -> Floats:
    """Return probabilities (q, way)."""
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def squared_distances(vectors: Floats, centres: Floats) -> Floats:
    """Return the squared distances (n, m) of vectors (n, d) from centres (m, d)."""
    return np.square(vectors[:, None] - centres).sum(-1)


def bd_cspn(supports: Floats, queries: Floats) -> Floats:
    """BD-CSPN: prototypes rectified by the queries, after a shift of their mean (Liu et al., ECCV 2020)."""
    sharpness = 10.0  # temperature of the cosine similarities
    queries = queries + supports.mean((0, 1)) - queries.mean(0)
    prototypes = unit(supports.mean(1))
    every = np.concatenate([*supports, queries])
    shares = softmax(sharpness * unit(every) @ prototypes.T)
    votes = shares * (shares.argmax(1)[:, None] == np.arange(len(supports)))  # a photo corrects only its likely class
    return softmax(sharpness * unit(queries) @ unit(votes.T @ every).T)


def laplacian_shot(supports: Floats, queries: Floats) -> Floats:
    """LaplacianShot: similar queries get similar answers (Ziko et al., ICML 2020)."""
    unary, distances = squared_distances(queries, supports.mean(1)), squared_distances(queries, queries)
    np.fill_diagonal(distances, np.inf)
    near = np.zeros(distances.shape)
    np.put_along_axis(near, distances.argsort(1)[:, :3], 1.0, axis=1)
    shares = softmax(-unary)
    for _ in range(20):
        shares = softmax(-unary + 0.5 * near @ shares)
    return shares


def alpha_tim(supports: Floats, queries: Floats) -> Floats:
    """α-TIM: prototypes that lower the α-entropy of answers and raise that of their shares (Veilleux et al., 2021)."""
    way, shot, d = supports.shape
    alpha = 2.0 if shot == 1 else 7.0
    examples, others = (torch.from_numpy(np.ascontiguousarray(each)) for each in (supports.reshape(-1, d), queries))
    targets = torch.arange(way).repeat_interleave(shot)
    prototypes = torch.from_numpy(supports.mean(1)).requires_grad_()
    adam = torch.optim.Adam([prototypes], lr=1e-4)

    def logits(vectors: Tensor) -> Tensor:
        return -7.5 * (vectors[:, None] - prototypes).square().sum(-1)

    def entropy(shares: Tensor) -> Tensor:
        return (1 - shares.pow(alpha).sum(-1)) / (alpha - 1)

    for _ in range(1000):
        shares = logits(others).softmax(1)
        proportions, doubt = entropy(shares.mean(0)), entropy(shares + 1e-12).mean()
        loss = torch.nn.functional.cross_entropy(logits(examples), targets) - proportions + doubt
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        return np.asarray(logits(others).softmax(1).numpy())


def paddle(supports: Floats, queries: Floats) -> Floats:
    """PADDLE: soft k-means with a penalty on the number of classes in use (Martin et al., NeurIPS 2022)."""
    spread = np.ptp(queries, axis=0)
    scale = 1 / np.where(spread == 0, 1, spread)
    supports, queries = supports * scale, queries * scale
    centres, preference = supports.mean(1), np.zeros(len(supports))
    for _ in range(100):
        shares = softmax(preference - squared_distances(queries, centres) / 2)
        preference = np.log(shares.mean(0) + 1e-6) + 1
        centres = (shares.T @ queries + supports.sum(1)) / (shares.sum(0) + supports.shape[1])[:, None]
    return shares


def em_dirichlet(supports: Floats, queries: Floats) -> Floats:
    """EM-Dirichlet: each class is a Dirichlet distribution of probability vectors (Martin et al., CVPR 2024).

    The authors' vectors are the probabilities that CLIP gives to the names of classes. There are no names here, so the
    vectors are the probabilities of the class means, at the authors' temperature of 30.
    """
    way, shot, d = supports.shape
    prototypes = unit(supports.mean(1)).T
    examples, others = (
        torch.from_numpy(softmax(30 * unit(vectors).astype(float) @ prototypes))
        for vectors in (supports.reshape(-1, d), queries)
    )
    return np.asarray(
        fit_dirichlet((examples + 1e-15).log().reshape(way, shot, way), (others + 1e-15).log(), others).numpy()
    )


def fit_dirichlet(supports: Tensor, queries: Tensor, shares: Tensor) -> Tensor:
    """Return shares (q, way) for logarithms of probabilities, supports (way, shot, way) and queries (q, way)."""
    alphas = torch.ones_like(supports[:, 0])
    for _ in range(20):
        weights = shares.sum(0) + supports.shape[1]
        alphas = dirichlet(alphas, (shares.T @ queries + supports.sum(1)) / weights[:, None])
        preference = (shares.mean(0) + 1e-15).log() + 1
        likely = alphas.sum(-1).lgamma() - alphas.lgamma().sum(-1) + queries @ (alphas - 1).T
        shares = (likely + preference).softmax(1)
    return shares


def dirichlet(alphas: Tensor, mean_logs: Tensor) -> Tensor:
    """Return parameters (way, k) that fit the mean logarithms (way, k), by majorisation from parameters before."""
    for step in range(1000):
        before, digammas = alphas, (alphas + 1).digamma()
        curve = (2 * (digammas * alphas - (alphas + 1).lgamma()) / alphas.square()).abs()
        slope = digammas - alphas.sum(-1, keepdim=True).digamma() - curve * alphas - mean_logs
        alphas = ((slope.square() + 4 * curve).sqrt() - slope) / (2 * curve)
        if step and step % 50 == 0 and (alphas - before).square().sum() < 1e-11 * before.square().sum():
            break
    return alphas
