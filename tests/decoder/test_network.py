"""The image decoder."""

import pytest
import torch
from decoding import Decoder


def test_resnet12_decoder_has_the_shapes_given_in_the_paper() -> None:
    with torch.device("meta"):
        decoder = Decoder(640, grid=5, size=84)
        x = torch.empty(2, 640, 5, 5)
        shapes = []
        for block in decoder.blocks:
            x = block(x)
            shapes.append(tuple(x.shape[1:]))
        assert shapes == [(512, 10, 10), (256, 20, 20), (128, 40, 40), (64, 80, 80)]
        assert decoder(torch.empty(2, 25, 640)).shape == (2, 3, 84, 84)


@pytest.mark.parametrize(("grid", "size", "widths"), [(4, 32, [64, 32, 16]), (5, 84, [64, 64, 32, 16])])
def test_conv4_decoder_mirrors_its_backbone(grid: int, size: int, widths: list[int]) -> None:
    decoder = Decoder(64, grid=grid, size=size).eval()
    shapes, x = [], torch.randn(1, 64, grid, grid)
    with torch.no_grad():
        for block in decoder.blocks:
            x = block(x)
            shapes.append(tuple(x.shape[1:]))
        images = decoder(5 * torch.randn(2, grid**2, 64))
    assert shapes == [(width, grid * 2**i, grid * 2**i) for i, width in enumerate(widths, start=1)]
    assert images.shape == (2, 3, size, size)
    assert images.abs().max() <= 1


def test_each_map_location_keeps_its_place_in_the_image() -> None:
    """Rows of the map are rows of the grid: a change at the top left of the map changes the top left of the image."""
    decoder = Decoder(8, grid=6, size=24).eval()
    maps = torch.randn(1, 36, 8)
    moved = maps.clone()
    moved[0, 1] += 3  # first row, second column
    with torch.no_grad():
        change = (decoder(moved) - decoder(maps)).abs().sum((0, 1))
    assert change[:17, :21].min() > 0  # within the range of the convolutions
    assert change[17:].sum() == change[:, 21:].sum() == 0
