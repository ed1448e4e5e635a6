"""A backbone with folded batch normalisation computes the same maps."""

import pytest
import torch
from torch import Tensor, nn

from frn.backbones import build_backbone
from frn.backbones.backbone import Backbone
from frn.backbones.folding import folded


def trained(backbone: Backbone) -> Backbone:
    """Give every normalisation layer statistics and scales as after training."""
    torch.manual_seed(1)
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 3)
            module.weight.data.normal_(1, 0.5)
            module.bias.data.normal_()
    return backbone.eval()


def norms(network: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@pytest.mark.parametrize("name", ["conv4", "resnet12-small", "litenet"])
def test_folding_keeps_maps_and_removes_normalisations(name: str) -> None:
    backbone = trained(build_backbone(name, last_pool=True, size=32)).double()
    lean = folded(backbone, 32)
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(lean(images), backbone(images), rtol=1e-9, atol=1e-9)
    assert norms(lean) == 0 < norms(backbone)


def test_folding_does_not_increase_the_bf16_error() -> None:
    backbone = trained(build_backbone("resnet12-small", last_pool=True, size=32))
    lean, images = folded(backbone, 32), torch.randn(16, 3, 32, 32)
    with torch.no_grad():
        exact = backbone(images)
        with torch.autocast("cpu", torch.bfloat16):
            errors = [float((network(images).float() - exact).square().mean()) for network in (backbone, lean)]
    assert 0 < errors[1] < 1.2 * errors[0]


class Crossed(Backbone):
    """These modules are adjacent in the listing but not in the computation."""

    d, stride = 4, 1

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.conv(images)
        return maps + self.norm(maps)


def test_network_that_uses_its_layers_differently_is_not_folded() -> None:
    backbone = trained(Crossed())
    assert folded(backbone, 8) is backbone
