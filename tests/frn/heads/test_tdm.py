"""TDM beyond its logits, which `test_official.py` compares with the authors' code."""

import pytest
import torch
from torch import Tensor

from frn.heads import build_head
from frn.heads.frn import FRNHead
from frn.heads.tdm import ChannelWeights, TDMProtoHead
from frn.heads.vectors.prototypes import ProtoHead

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
