"""LCCRN beyond its logits, which `test_official.py` compares with the authors' code."""

import pytest
import torch
import torch.nn.functional as F

from frn.heads.lccrn import LCCRNHead
from frn.models.header import ModelConfig
from frn.models.model import Model

WAY, SHOT, R, QUERIES = 3, 2, 4, 5


def test_lccrn_requires_square_maps() -> None:
    with pytest.raises(ValueError, match="8 locations"):
        LCCRNHead(12)(torch.randn(WAY, SHOT, 8, 12), torch.randn(QUERIES, 8, 12))


def test_lccrn_auxiliary_loss_uses_the_maps_of_the_first_network() -> None:
    support = torch.randn(WAY, SHOT, R, 12)
    torch.testing.assert_close(LCCRNHead(12).auxiliary_supports(support), F.normalize(support[..., :6], dim=3))


@torch.no_grad()
def test_head_with_two_networks_gets_two_backbones() -> None:
    torch.manual_seed(0)
    model = Model(ModelConfig(backbone="conv4", method="lccrn")).eval()
    images = torch.rand(2, 3, 84, 84)
    maps = model.feature_maps(images)
    assert maps.shape == (2, 25, 128)
    assert model.d == 128
    first, second = maps.chunk(2, 2)
    assert not torch.allclose(first, second)
    alone = Model(ModelConfig(backbone="conv4", method="mcl")).eval()
    prefix = "networks.1."
    weights = {k.removeprefix(prefix): v for k, v in model.backbone.state_dict().items() if k.startswith(prefix)}
    alone.backbone.load_state_dict(weights)
    torch.testing.assert_close(alone.feature_maps(images), second)
    torch.testing.assert_close(model.folded().feature_maps(images), maps, rtol=1e-3, atol=1e-5)
