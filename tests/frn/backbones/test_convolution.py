"""The convolution with a custom gradient equals that of torch, forward and backward."""

import pytest
import torch
from torch import Tensor, nn

from frn.backbones.convolution import Convolution3x3, patches


def gradients(layer: nn.Conv2d, x: Tensor, *, bf16: bool) -> tuple[Tensor, ...]:
    """Return the maps, and the gradients of a random projection with respect to the image and the weights."""
    x = x.clone().requires_grad_()
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        maps = layer(x)
    projection = torch.randn(maps.shape, generator=torch.Generator().manual_seed(1)).to(maps.dtype)
    (maps.double() * projection.double()).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is not None
    return maps.detach().double(), x.grad.double(), layer.weight.grad.double()


@pytest.mark.parametrize("grid", [(4, 4), (3, 5)])
def test_convolution_equals_that_of_torch_up_to_rounding(grid: tuple[int, int]) -> None:
    torch.manual_seed(0)
    ours = Convolution3x3(160, 192).to(memory_format=torch.channels_last)
    plain = nn.Conv2d(160, 192, 3, padding=1, bias=False).to(memory_format=torch.channels_last)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(6, 160, *grid).to(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        assert ours.by_product(x)
        assert not ours.by_product(torch.empty(1, 160, 12, 12))
    assert not ours.by_product(x)
    exact = gradients(plain, x, bf16=False)
    for found, theirs, true in zip(gradients(ours, x, bf16=True), gradients(plain, x, bf16=True), exact, strict=True):
        assert (found - true).norm() <= 1.05 * (theirs - true).norm()
        assert (found - true).norm() < 0.01 * true.norm()


def test_patches_are_the_neighbourhoods() -> None:
    x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    unfolded = nn.functional.unfold(x, 3, padding=1).unflatten(1, (3, 9))  # (b, c, 9, h w)
    torch.testing.assert_close(patches(x), unfolded.permute(0, 3, 2, 1).reshape(40, 27))
