"""A network with larger patches starts by computing the same function."""

import pytest
import torch
from lessons.refined_stem import averaging, refine_stem

from frn.backbones.resnet12 import ResNet12
from frn.errors import FrnError


def network(stem: int) -> ResNet12:
    return ResNet12((4, 6), stem=stem).eval()


def test_larger_patches_start_with_the_same_function_of_the_averaged_image() -> None:
    coarse, fine = network(4), network(6)
    refine_stem(coarse, fine)
    image = torch.rand(2, 3, 48, 48)
    reduce = torch.kron(torch.eye(8), averaging(6, 4))
    torch.testing.assert_close(fine(image), coarse(reduce @ image @ reduce.mT), rtol=1e-4, atol=1e-5)


def test_averaging_uses_each_pixel_equally() -> None:
    expected = torch.tensor([[2, 1, 0], [0, 1, 2]]) / 3
    torch.testing.assert_close(averaging(3, 2), expected)


def test_smaller_patches_are_refused() -> None:
    with pytest.raises(FrnError, match="its patches are larger"):
        refine_stem(network(6), network(4))
