"""TDM, compared with its formulas in float64 and with numbers from its authors' code."""

import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from frn.heads import build_head
from frn.heads.frn import FRNHead
from frn.heads.tdm import ChannelWeights, TDMFRNHead, TDMProtoHead
from frn.heads.vectors.prototypes import ProtoHead

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


@pytest.mark.parametrize(
    ("head", "plain"),
    [
        (build_head("frn-tdm", D), FRNHead()),
        (build_head("proto-tdm", D), ProtoHead(pooled=False)),
        (TDMProtoHead(D, pooled=True), ProtoHead(pooled=True)),
    ],
)
def test_equal_weights_give_the_underlying_method(head: torch.nn.Module, plain: torch.nn.Module) -> None:
    support, query = episode()
    head.double().eval()
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
