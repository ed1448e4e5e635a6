"""LiteNet: the size of its map, and its scale."""

import pytest
import torch

from frn.backbones import build_backbone


@pytest.mark.parametrize(("size", "last_pool", "side"), [(160, True, 5), (150, True, 4), (96, True, 3), (96, False, 6)])
def test_grid_is_that_of_the_map(size: int, last_pool: bool, side: int) -> None:
    backbone = build_backbone("litenet", last_pool=last_pool, size=size).eval()
    with torch.inference_mode():
        maps = backbone(torch.randn(2, 3, size, size))
    assert maps.shape == (2, backbone.d, *backbone.grid(size)) == (2, 320, side, side)


def test_every_map_has_a_mean_square_of_one_even_if_it_is_black() -> None:
    torch.manual_seed(0)
    backbone = build_backbone("litenet", size=64)
    images = torch.cat([torch.randn(3, 3, 64, 64), torch.zeros(1, 3, 64, 64)])
    maps = backbone(images)  # in training mode, so that the statistics are those of these images
    torch.testing.assert_close(maps.square().mean((1, 2, 3)), torch.ones(4), rtol=1e-3, atol=0)
