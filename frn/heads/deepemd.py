"""DeepEMD (Zhang et al., CVPR 2020): a class's score is the cost of transporting its locations to the query's.

The optimal transport is a linear program without a closed form, which is what the paper compares FRN with (Sec. 3.7). A
library of the extra `emd` solves it exactly. The head follows the authors' code: cosine costs of features centred over
their channels, weights by cross-reference, a fixed temperature, and a structured fully connected layer (SFC) that SGD
fits to the supports if there are several per class.

Shape letters: way classes, r locations, d channels, q queries, n transports (n = q * way).
"""

from importlib import import_module
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frn.errors import FrnError
from frn.heads.head import Head
from frn.system.extras import install_command

TEMPERATURE = 12.5
"""Temperature: fixed in the authors' code, not learned."""


class DeepEMDHead(Head):
    """Head that scores a query by one minus the cost of its optimal transport to each class, times the temperature.

    The solver is POT's network simplex in float64, which is exact; costs and weights get their gradients. With several
    shots the supports get no gradient, as in the authors' code: the SFC starts from their mean and is detached.
    """

    def __init__(self, *, sfc_passes: int = 100, sfc_rate: float = 100.0, sfc_batch: int = 4) -> None:
        """Set the number and rate of the SGD steps that fit the SFC, with momentum and dampening of 0.9.

        The default rate is that of the authors' evaluation on ResNet-12 (their training uses 0.1).
        """
        super().__init__()
        self.sfc_passes, self.sfc_rate, self.sfc_batch = sfc_passes, sfc_rate, sfc_batch

    def _logits(self, support: Tensor, query: Tensor) -> Tensor:
        prototypes = support[:, 0] if support.shape[1] == 1 else self.structured_prototypes(support)
        return self.score(prototypes, query)

    def score(self, prototypes: Tensor, query: Tensor) -> Tensor:
        """Return logits (queries, way) from one map per class (way, r, d) and query (queries, r, d)."""
        supply = cross_reference(query, prototypes)  # q, way, r
        demand = cross_reference(prototypes, query).transpose(0, 1)
        cost = 1 - torch.einsum("qid,cjd->qcij", direction(query), direction(prototypes))
        return TEMPERATURE * (1 - transport_cost(cost, supply, demand))

    def structured_prototypes(self, support: Tensor) -> Tensor:
        """Fit one map per class (way, r, d) to classify the supports (way, shot, r, d), deterministically."""
        way, shot = support.shape[:2]
        generator = torch.Generator().manual_seed(0)
        with torch.inference_mode(False), torch.enable_grad():
            examples = support.detach().flatten(0, 1).clone()
            target = torch.arange(way, device=support.device).repeat_interleave(shot)
            prototypes = nn.Parameter(examples.unflatten(0, (way, shot)).mean(1))
            optimizer = torch.optim.SGD([prototypes], self.sfc_rate, momentum=0.9, dampening=0.9)
            for _ in range(self.sfc_passes):
                for batch in torch.randperm(way * shot, generator=generator).split(self.sfc_batch):
                    chosen = batch.to(support.device)
                    loss = F.cross_entropy(self.score(prototypes, examples[chosen]), target[chosen])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        return prototypes.detach()


def cross_reference(maps: Tensor, others: Tensor) -> Tensor:
    """Weight each location by its similarity to the mean of the other map: (a, r, d), (b, r, d) to (a, b, r).

    The weights of a map sum to one.
    """
    # Minimum weight of a location before normalisation (in the authors' code, not in the text)
    weights = torch.einsum("ard,bd->abr", maps, others.mean(1)).relu() + 1e-3
    return weights / weights.sum(-1, keepdim=True)


def direction(maps: Tensor) -> Tensor:
    """Centre features over their channels and scale them to unit length."""
    return F.normalize(maps - maps.mean(-1, keepdim=True), dim=-1)


def transport_cost(cost: Tensor, supply: Tensor, demand: Tensor) -> Tensor:
    """Return the least total cost of moving `supply` (..., r) to `demand` (..., r) at unit `cost` (..., r, r).

    Supply and demand sum to one each. Raises FrnError if the solver is not installed.
    """
    return _Transport.apply(cost, supply, demand)


class _Transport(torch.autograd.Function):
    """Value of a linear program, differentiable through its optimal flow and the marginal costs of its weights."""

    @staticmethod
    def forward(ctx: Any, cost: Tensor, supply: Tensor, demand: Tensor) -> Tensor:
        leading = cost.dim() - 2
        costs, supplies, demands = (
            tensor.detach().double().reshape(-1, *tensor.shape[leading:]).cpu().numpy()
            for tensor in (cost, supply, demand)
        )
        solver, plans = import_solver(), []
        for image_costs, sources, targets in zip(costs, supplies, demands, strict=True):
            # Weights that sum to one in float32 are not exact enough for POT.
            flow, log = solver.emd(sources / sources.sum(), targets / targets.sum(), image_costs, log=True)
            plans.append((flow, log["u"], log["v"]))
        flow, sent, taken = (
            torch.from_numpy(np.stack(part)).to(cost).reshape(*cost.shape[:-2], *part[0].shape)
            for part in zip(*plans, strict=True)
        )
        ctx.save_for_backward(flow, sent, taken)
        return (flow * cost).sum((-2, -1))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        flow, sent, taken = ctx.saved_tensors
        return gradient[..., None, None] * flow, gradient[..., None] * sent, gradient[..., None] * taken


def import_solver() -> Any:
    """Import POT. Raises FrnError if POT is not installed."""
    try:
        return import_module("ot")
    except ImportError as error:
        raise FrnError(f"the DeepEMD head needs POT for its linear programs: {install_command('emd')}") from error
