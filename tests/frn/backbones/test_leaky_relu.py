"""The activation of ResNet-12 is bit-identical to that of torch, in every precision and mode."""

import pytest
import torch
import torch.nn.functional as F

from frn.backbones.leaky_relu import leaky_relu


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activation_and_its_gradient_equal_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, gradient = torch.randn(2, 4, 3, 6, 6).to(dtype)
    theirs, ours = x.clone().requires_grad_(), x.clone().requires_grad_()
    F.leaky_relu(theirs, 0.1).backward(gradient)
    leaky_relu(ours * 1).backward(gradient)  # a leaf tensor must not be overwritten
    assert theirs.grad is not None
    assert ours.grad is not None
    assert torch.equal(ours.grad, theirs.grad)
    assert torch.equal(leaky_relu(x.clone()), F.leaky_relu(x, 0.1))


def test_gradient_stores_only_what_the_next_layer_stores() -> None:
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = leaky_relu(torch.randn(3, 4).bfloat16().requires_grad_())
    assert kept == [y.data_ptr()]
