"""The ProtoNet head."""

import pytest
import torch

from frn.errors import FrnError
from frn.heads import build_head
from frn.heads.vectors.proto import ProtoHead


@pytest.mark.parametrize("pooled", [True, False])
def test_logits_are_distances_from_class_means_per_dimension(pooled: bool) -> None:
    head, support, query = ProtoHead(pooled=pooled), torch.randn(3, 2, 4, 16), torch.randn(5, 4, 16)
    flat_support, embedded = (maps.mean(-2) if pooled else maps.flatten(-2) for maps in (support, query))
    prototypes = flat_support.mean(1)
    expected = torch.stack([-((embedded - p) ** 2).mean(-1) for p in prototypes], dim=1)
    torch.testing.assert_close(head(support, query), expected)


def test_an_unknown_method_is_answered_with_the_known_ones() -> None:
    with pytest.raises(FrnError, match="unknown method 'ptoto'; choose one of: frn, proto"):
        build_head("ptoto", 64)
