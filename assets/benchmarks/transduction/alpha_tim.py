"""α-TIM: prototypes that lower the α-entropy of answers and raise that of their proportions (Veilleux et al., 2021)."""

import numpy as np
import torch

from transduction import Floats

TEMPERATURE, RATE, STEPS = 15.0, 1e-4, 1000
ALPHAS = {1: 2.0}  # alpha by the number of shots; 7 for others


def label(supports: Floats, queries: Floats) -> Floats:
    """Return shares (q, way) of vectors of unit length, after steps of Adam on the class means."""
    way, shot, d = supports.shape
    alpha = ALPHAS.get(shot, 7.0)
    examples, others = (torch.from_numpy(np.ascontiguousarray(each)) for each in (supports.reshape(-1, d), queries))
    targets = torch.arange(way).repeat_interleave(shot)
    prototypes = torch.from_numpy(supports.mean(1)).requires_grad_()
    adam = torch.optim.Adam([prototypes], lr=RATE)

    def logits(vectors: torch.Tensor) -> torch.Tensor:
        return -TEMPERATURE / 2 * (vectors[:, None] - prototypes).square().sum(-1)

    def entropy(shares: torch.Tensor) -> torch.Tensor:
        return (1 - shares.pow(alpha).sum(-1)) / (alpha - 1)

    for _ in range(STEPS):
        shares = logits(others).softmax(1)
        proportions, doubt = entropy(shares.mean(0)), entropy(shares + 1e-12).mean()
        loss = torch.nn.functional.cross_entropy(logits(examples), targets) - proportions + doubt
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        return np.asarray(logits(others).softmax(1).numpy())
