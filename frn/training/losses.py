"""Training losses of an episode: cross-entropy over the queries, and the auxiliary loss (Eq. 9, Eq. 11)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

AuxMode = Literal["reference", "paper", "off"]

AUX_WEIGHT = 0.03  # Sec. 3.5: the auxiliary loss is downscaled by 0.03.


def episode_loss(logits: Tensor, support: Tensor, queries: int, aux: AuxMode = "reference") -> Tensor:
    """Return the cross-entropy of class-major queries plus the weighted auxiliary loss.

    The inputs are logits (way * queries, way) and support maps (way, shot, r, d); `queries` is the number per class.
    """
    way = logits.shape[1]
    target = torch.arange(way, device=logits.device).repeat_interleave(queries)
    loss = F.cross_entropy(logits, target)
    return loss if aux == "off" else loss + AUX_WEIGHT * auxiliary_loss(support, aux)


def auxiliary_loss(support: Tensor, mode: Literal["reference", "paper"] = "reference") -> Tensor:
    """Return the loss that makes supports (way, shot, r, d) of different classes orthogonal (Eq. 11), unweighted.

    "paper" projects every feature onto the unit sphere and sums over all ordered pairs i != j. "reference" follows the
    authors' code: the whole support tensor is divided by one Frobenius norm, and each pair counts once. The two differ
    by orders of magnitude (the first would dominate the cross-entropy), so "reference" is the default.
    """
    with torch.autocast(support.device.type, enabled=False):
        pool = support.flatten(1, 2).to(torch.promote_types(support.dtype, torch.float32))  # way, p, d
        pool = F.normalize(pool, dim=-1) if mode == "paper" else pool / pool.norm()
        # |S_i S_j^T|^2 = <S_i^T S_i, S_j^T S_j>; summed over all i != j this is |sum_i G_i|^2 - sum_i |G_i|^2.
        if pool.shape[1] < pool.shape[2]:
            cross = (pool.flatten(0, 1) @ pool.flatten(0, 1).mT).square()
            within = (pool @ pool.mT).square()
        else:
            gram = pool.mT @ pool  # way, d, d
            cross, within = gram.sum(0).square(), gram.square()
        both_orders = cross.sum() - within.sum()
        return both_orders if mode == "paper" else both_orders / 2
