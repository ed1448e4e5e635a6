"""Initialise a wider network so that it computes the same as the narrow one (Chen et al., Net2Net, 2016).

    python assets/teaching/widen.py runs/3 --backbone resnet9-patch4-wide --out wide.safetensors

Each new channel copies an old one. The next layer divides its old weight at random between a channel and its copies, so
that the copies diverge in training.
"""

from dataclasses import replace as changed
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor, nn

from frn.backbones.resnet12 import ResidualBlock, ResNet12
from frn.cli.shell import options
from frn.cli.shell.console import user_errors
from frn.errors import FrnError
from frn.models.model import Model, load_model, save_model
from frn.system.files import require_writable


def widen(narrow: ResNet12, wide: ResNet12) -> None:
    """Fill `wide` so that its maps equal those of `narrow`, with some channels repeated.

    Raises FrnError if the networks differ in more than their width, or `wide` is narrower in any block.
    """
    if (len(narrow.blocks), narrow.stem, narrow.stride) != (len(wide.blocks), wide.stem, wide.stride):
        raise FrnError("a network can widen another only if both have the same blocks and the same stem")
    inputs = torch.arange(3 * narrow.stem**2)
    for old, new in zip(narrow.blocks, wide.blocks, strict=True):
        assert isinstance(old, ResidualBlock)
        assert isinstance(new, ResidualBlock)
        first, second, outputs = (_copies(old.conv3, new.conv3) for _ in range(3))
        _fill(old.conv1, new.conv1, inputs, first)
        _fill(old.conv2, new.conv2, first, second)
        _fill(old.conv3, new.conv3, second, outputs)
        _fill(old.shortcut, new.shortcut, inputs, outputs)
        inputs = outputs


def _copies(narrow: nn.Module, wide: nn.Module) -> Tensor:
    """Return which old channel each new channel copies: first every old channel, then some of them again."""
    (old, _), (new, _) = narrow.children(), wide.children()
    assert isinstance(old, nn.Conv2d)
    assert isinstance(new, nn.Conv2d)
    more = new.out_channels - old.out_channels
    if more < 0:
        raise FrnError(f"a block of {old.out_channels} channels cannot be widened to {new.out_channels}")
    rounds = range(-(-more // old.out_channels))
    again = [torch.randperm(old.out_channels) for _ in rounds]
    return torch.cat([torch.arange(old.out_channels), *again])[: new.out_channels]


@torch.no_grad()
def _fill(narrow: nn.Module, wide: nn.Module, inputs: Tensor, outputs: Tensor) -> None:
    (old, old_norm), (new, new_norm) = narrow.children(), wide.children()
    assert isinstance(old, nn.Conv2d)
    assert isinstance(new, nn.Conv2d)
    share = torch.rand(len(outputs), len(inputs)) + 0.5
    total = torch.zeros(len(outputs), old.in_channels).index_add_(1, inputs, share)
    share /= total[:, inputs]
    new.weight.copy_(old.weight[outputs][:, inputs] * share[:, :, None, None])
    new_norm.load_state_dict(
        {name: value[outputs] if value.dim() else value for name, value in old_norm.state_dict().items()}
    )


def main(
    model: Annotated[str, typer.Argument(help="Model name, model file or run folder.")],
    backbone: Annotated[str, typer.Option(help="Wider backbone of the same kind.")],
    out: Annotated[Path, typer.Option(help="Model file to write: something.safetensors.")],
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    replace: options.Replace = False,
) -> None:
    """Write a model with a wider backbone that computes the same function, for `frn train --init`."""
    with user_errors():
        require_writable(out, replace=replace)
        narrow = load_model(model)
        torch.manual_seed(seed)
        wide = Model(changed(narrow.config, backbone=backbone))
        if not isinstance(narrow.backbone, ResNet12) or not isinstance(wide.backbone, ResNet12):
            raise FrnError(f"{narrow.config.backbone} cannot begin {backbone}")
        widen(narrow.backbone, wide.backbone)
        wide.head.load_state_dict(narrow.head.state_dict())
        wide.record = {**narrow.record, "widened_from": narrow.config.backbone}
        save_model(wide.eval(), out)
        print(f"{out}: {backbone} with the function of {model}")


if __name__ == "__main__":
    typer.run(main)
