"""TDM, compared with its formulas in float64 and with numbers from its authors' code."""

import math
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from frn.heads import build_head
from frn.heads.frn import FRNHead
from frn.heads.tdm import ChannelWeights, SandGlass, TDMFRNHead, TDMProtoHead
from frn.heads.vectors.prototypes import ProtoHead
from tests.frn.heads.oracle import assert_equals

GOLDEN = Path(__file__).parents[2] / "golden"
WAY, SHOT, R, D, QUERIES = 3, 2, 4, 6, 5


def episode() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    support = torch.randn(WAY, SHOT, R, D, generator=generator, dtype=torch.float64)
    return support, torch.randn(QUERIES, R, D, generator=generator, dtype=torch.float64)


def lively(weights: ChannelWeights) -> ChannelWeights:
    """Set weights for which BatchNorm has an effect."""
    generator = torch.Generator().manual_seed(1)
    for name, tensor in weights.state_dict().items():
        if "norm" in name and tensor.dim():
            tensor.add_(0.3 * torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype))
    return weights.double().eval()


def by_hand(weights: ChannelWeights, support: Tensor, q: Tensor, label: int) -> Tensor:
    """Compute the channel weights for one class and one query, channel by channel."""

    def network(net: SandGlass, distances: list[Tensor]) -> Tensor:
        x = net.wide.weight @ torch.stack(distances)
        mean, var = net.norm.running_mean, net.norm.running_var
        assert mean is not None
        assert var is not None
        x = (x - mean) / (var + 1e-5).sqrt() * net.norm.weight + net.norm.bias
        return 1 + torch.tanh(net.narrow.weight @ x.clamp(min=0))

    prototypes = support.mean(1)
    within, between, of_query = [], [], []
    for c in range(D):
        to_means = [(prototypes[label, :, c] - other.mean(-1)).square().mean() for other in prototypes]
        within.append(to_means.pop(label))
        between.append(torch.stack(to_means).min())
        of_query.append((q[:, c] - q.mean(-1)).square().mean())
    classes = (network(weights.within, within) + network(weights.between, between)) / 2
    return (classes + network(weights.query, of_query)) / 2


def check(head: TDMFRNHead | TDMProtoHead, score: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Compare a head with a function that scores one query against one class, given the channel weights."""
    lively(head.weights)

    def plain(support: Tensor, query: Tensor) -> Tensor:
        weights = [[by_hand(head.weights, support, q, label) for label in range(WAY)] for q in query]
        rows = [
            [score(q, s, w) for s, w in zip(support, row, strict=True)] for q, row in zip(query, weights, strict=True)
        ]
        return torch.stack([torch.stack(row) for row in rows])

    assert_equals(head.eval(), plain, *episode())


def test_frn_compares_weighted_maps() -> None:
    head = TDMFRNHead(D).double()
    frn = head.frn
    for parameter, value in zip((frn.alpha, frn.beta, frn.gamma), (0.4, -0.2, 1.7), strict=True):
        parameter.data.fill_(value)

    def score(q: Tensor, s: Tensor, weight: Tensor) -> Tensor:
        pool = s.flatten(0, 1)
        lam = len(pool) / D * frn.alpha.exp() + 1e-6
        gram, identity = pool.T @ pool, torch.eye(D, dtype=pool.dtype)
        hat = frn.beta.exp() * torch.linalg.solve(gram + lam * identity, gram)  # Eq. 10
        return -frn.gamma * (q @ hat * weight - q * weight).square().sum() / R

    check(head, score)


@pytest.mark.parametrize("pooled", [True, False])
def test_protonet_compares_weighted_maps(pooled: bool) -> None:
    head = TDMProtoHead(D, pooled=pooled)

    def score(q: Tensor, s: Tensor, weight: Tensor) -> Tensor:
        difference = (q - s.mean(0)) * weight
        return -head.gamma * (difference.mean(0) if pooled else difference).square().mean()

    check(head, score)


@pytest.mark.parametrize(("name", "plain"), [("frn-tdm", FRNHead()), ("proto-tdm", ProtoHead(pooled=False))])
def test_equal_weights_give_the_underlying_method(name: str, plain: torch.nn.Module) -> None:
    head, (support, query) = build_head(name, D).double().eval(), episode()
    for net in head.get_submodule("weights").children():
        net.get_parameter("narrow.weight").data.zero_()  # every weight is one
    with torch.no_grad():
        torch.testing.assert_close(head(support, query), plain(support, query))


def test_weights_get_noise_only_in_training_and_stay_between_0_and_2() -> None:
    weights, (support, query) = lively(ChannelWeights(D)), episode()
    with torch.no_grad():
        assert torch.equal(weights(support, query), weights(support, query))
        weights.train()
        assert not torch.equal(weights(support, query), weights(support, query))
        for net in (weights.within, weights.between, weights.query):
            net.narrow.weight.fill_(100.0)
        assert weights(support, query).max() <= 2
        assert weights(support, query).min() >= 0


NAMES = {"within": "prt_self", "between": "prt_other", "query": "qry_self"}
LAYERS = {"wide": "linear1", "norm": "bn1", "narrow": "linear2"}


@pytest.mark.parametrize("name", ["frn-tdm", "proto-tdm"])
def test_logits_equal_the_authors_code(name: str) -> None:
    head = build_head(name, 64)
    for key, tensor in head.get_submodule("weights").state_dict().items():
        net, layer, last = key.split(".")
        z = np.random.default_rng(zlib.crc32(f"TDM.{NAMES[net]}.{LAYERS[layer]}.{last}".encode()))
        if tensor.dim() == 2:  # the weights are generated as for the recording
            tensor.copy_(torch.from_numpy(z.standard_normal(tensor.shape) / math.sqrt(tensor.shape[1])))
        elif last == "running_var":
            tensor.copy_(torch.from_numpy(1 + 0.1 * np.abs(z.standard_normal(tensor.shape))))
        elif tensor.dim():
            tensor.copy_(torch.from_numpy((last == "weight") + 0.1 * z.standard_normal(tensor.shape)))
    frn = isinstance(head, TDMFRNHead)
    scalars = {"frn.alpha": 0.4, "frn.beta": -0.2, "frn.gamma": 1.7} if frn else {"gamma": 1.7}
    for key, value in scalars.items():
        head.get_parameter(key).data.fill_(value)
    arrays = np.load(GOLDEN / "episode.npz"), np.load(GOLDEN / "tdm.npz")
    support, query = (torch.from_numpy(arrays[0][key]).double() for key in ("support", "query"))
    with torch.no_grad():
        head.double().eval()
        weights = head.get_submodule("weights")(support, query)
        torch.testing.assert_close(weights, torch.from_numpy(arrays[1]["weights"]))
        logits = head(support, query)
    expected = torch.from_numpy(arrays[1]["frn" if frn else "proto"])
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=0)  # the authors' scalars are float32
