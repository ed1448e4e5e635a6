"""A backbone and a head together."""

import pytest
import torch

from frn.backbones import build_backbone
from frn.errors import FrnError
from frn.models.header import ModelConfig
from frn.models.model import Model


@pytest.mark.parametrize(("backbone", "d"), [("conv4", 64), ("resnet12", 640), ("resnet12-small", 256)])
@pytest.mark.parametrize(("side", "last_pool", "grid"), [(84, True, 5), (32, True, 2), (32, False, 4), (50, False, 6)])
def test_map_size_follows_the_image_size(backbone: str, d: int, side: int, last_pool: bool, grid: int) -> None:
    model = Model(ModelConfig(backbone=backbone, method="frn", last_pool=last_pool)).eval()
    assert model.feature_maps(torch.rand(1, 3, side, side + 16)).shape == (1, grid * ((side + 16) // (side // grid)), d)


def test_patch_stem_uses_each_pixel_once() -> None:
    model = Model(ModelConfig(backbone="resnet9-patch4", method="frn", last_pool=False)).eval()
    images = torch.rand(1, 3, 84, 112, requires_grad=True)
    maps = model.feature_maps(images)
    assert maps.shape == (1, 5 * 7, 256)
    maps.sum().backward()
    assert images.grad is not None
    assert (images.grad[..., :80, :112] != 0).float().mean() > 0.99


def test_reconstruction_divides_resnet_maps_and_protonet_does_not() -> None:
    """SM, Hyperparameters: embeddings are downscaled by sqrt(640)."""
    torch.manual_seed(0)
    frn = Model(ModelConfig(backbone="resnet12", method="frn")).eval()
    proto = Model(ModelConfig(backbone="resnet12", method="proto")).eval()
    proto.backbone.load_state_dict(frn.backbone.state_dict())
    images = torch.rand(1, 3, 32, 32)
    torch.testing.assert_close(frn.feature_maps(images) * 640**0.5, proto.feature_maps(images))


def test_model_normalises_images_itself() -> None:
    model = Model(ModelConfig(backbone="conv4", method="frn")).eval()
    images = torch.rand(2, 3, 32, 32)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (model.config.mean, model.config.std))
    expected = model.backbone((images - mean) / std).flatten(2).mT
    torch.testing.assert_close(model.feature_maps(images), expected)


def test_bytes_are_refused_as_images() -> None:
    """Otherwise bytes would be normalised as if they were values in [0, 1]."""
    model = Model(ModelConfig(backbone="conv4", method="frn")).eval()
    with pytest.raises(ValueError, match=r"images have dtype torch\.uint8, .*: pass images\.float\(\) / 255"):
        model.feature_maps(torch.zeros(1, 3, 84, 84, dtype=torch.uint8))


def test_an_image_smaller_than_a_location_is_refused() -> None:
    with pytest.raises(FrnError, match=r"images of \(12, 40\) pixels are too small; the minimum is 16"):
        Model(ModelConfig(backbone="conv4", method="frn")).feature_maps(torch.rand(1, 3, 12, 40))


def test_error_about_an_unknown_backbone_lists_the_known_ones() -> None:
    with pytest.raises(
        FrnError, match="unknown backbone 'conv5'; choose one of: conv4, resnet12, resnet12-small, resnet9"
    ):
        build_backbone("conv5")
