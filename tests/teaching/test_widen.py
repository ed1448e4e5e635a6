from pathlib import Path

import pytest
import torch
from widen import widen

from frn.backbones.resnet12 import ResNet12
from frn.errors import FrnError
from frn.models.header import ModelConfig
from frn.models.model import Model, load_model, save_model
from tests.benchmarks.scripts import invoke


def network(*channels: int, stem: int = 2) -> ResNet12:
    net = ResNet12(channels, stem=stem, last_pool=False)
    for name, value in net.state_dict().items():  # no two channels are alike, as after training
        if value.is_floating_point():
            torch.nn.init.uniform_(value, 0.5, 1.5) if "var" in name else torch.nn.init.normal_(value, std=0.2)
    return net.eval()


def test_wider_network_starts_with_the_same_function() -> None:
    torch.manual_seed(0)
    narrow, wide = network(4, 8), network(6, 20)
    widen(narrow, wide)
    images = torch.randn(2, 3, 24, 24)
    maps, wider = narrow(images), wide(images)
    torch.testing.assert_close(wider[:, :8], maps)
    assert all(any(torch.allclose(channel, old, atol=1e-5) for old in maps[0]) for channel in wider[0])


def test_copies_of_a_channel_diverge_in_training() -> None:
    torch.manual_seed(0)
    narrow, wide = network(4, 8), network(8, 8)
    widen(narrow, wide)
    wide.train()(torch.randn(4, 3, 24, 24)).square().mean().backward()
    gradient = wide.get_parameter("blocks.0.conv1.0.weight").grad
    assert gradient is not None
    assert all((gradient[i] - gradient[j]).abs().max() > 1e-6 for i in range(8) for j in range(i))


@pytest.mark.parametrize(("narrow", "wide"), [((8, 8), (6, 8)), ((4, 8), (4, 8, 16))])
def test_unrelated_networks_are_refused(narrow: tuple[int, ...], wide: tuple[int, ...]) -> None:
    with pytest.raises(FrnError, match=r"cannot be widened|same blocks"):
        widen(network(*narrow), network(*wide))


def test_a_widened_model_file_computes_the_same_function(tmp_path: Path) -> None:
    narrow = Model(ModelConfig(backbone="resnet9-patch4", method="frn", last_pool=False)).eval()
    save_model(narrow, tmp_path / "narrow.safetensors", {"data": "moths"})
    words = (
        tmp_path / "narrow.safetensors",
        "--backbone",
        "resnet9-patch4-wide",
        "--out",
        tmp_path / "wide.safetensors",
    )
    assert invoke("widen", *words).exit_code == 0
    wide, image = load_model(tmp_path / "wide.safetensors"), torch.rand(1, 3, 84, 84)
    torch.testing.assert_close(wide.feature_maps(image)[..., :256] * 384**0.5, narrow.feature_maps(image) * 16)
    assert wide.record == {"data": "moths", "widened_from": "resnet9-patch4"}
