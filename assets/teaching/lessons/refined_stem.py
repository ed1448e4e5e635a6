"""Initialise a network with larger patches so that it computes the same as before on a reduced image."""

import torch
from torch import Tensor

from frn.backbones.resnet12 import ResidualBlock, ResNet12
from frn.errors import FrnError


@torch.no_grad()
def refine_stem(coarse: ResNet12, fine: ResNet12) -> None:
    """Fill `fine` so that its maps equal the maps of `coarse` for an image reduced to the size of `coarse`.

    Raises FrnError if the networks differ in more than their patches, or the patches of `fine` are smaller.
    """
    old, new = coarse.stem, fine.stem
    weights = coarse.state_dict()
    if new > old:
        shares = averaging(new, old)
        first = coarse.blocks[0]
        assert isinstance(first, ResidualBlock)
        for name in ("conv1", "shortcut"):
            key = f"blocks.0.{name}.0.weight"
            patches = weights[key].unflatten(1, (3, old, old))
            weights[key] = torch.einsum("ocyxhw,yi,xj->ocijhw", patches, shares, shares).flatten(1, 3)
    try:
        fine.load_state_dict(weights)
    except RuntimeError as error:
        raise FrnError(
            "a network can refine another only if the blocks are the same and its patches are larger"
        ) from error


def averaging(pixels: int, fewer: int) -> Tensor:
    """Return the matrix (fewer, pixels) that reduces a line of pixels to fewer pixels by averaging."""
    edges = torch.arange(fewer + 1) * pixels / fewer
    covered = torch.minimum(edges[1:, None], torch.arange(1, pixels + 1)) - torch.maximum(
        edges[:-1, None], torch.arange(pixels)
    )
    return covered.clamp(min=0) * fewer / pixels
