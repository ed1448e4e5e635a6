"""Backbones of other packages, by entry points: saving, training, evaluation and export then know them.

In the `pyproject.toml` of such a package:

    [project.entry-points."frn.backbones"]
    my-net = "my_package:make_net"

`make_net()` returns any `nn.Module` that takes normalised images (b, 3, H, W) and gives maps (b, d, h, w).
"""

from importlib.metadata import EntryPoint, entry_points

import torch
from torch import Tensor, nn

from frn.backbones.backbone import Backbone
from frn.errors import FrnError

GROUP = "frn.backbones"


class Registered(Backbone):
    """A network of another package, trained like one of ours."""

    def __init__(self, network: nn.Module, name: str, size: int) -> None:
        """Look at the map that it makes of images of `size` pixels. FrnError if it is not one."""
        super().__init__()
        self.network, self.size = network, size
        training = network.training
        try:
            with torch.no_grad():
                maps = network.eval()(torch.zeros(1, 3, size, size))
        except (RuntimeError, ValueError, TypeError, AssertionError, IndexError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise FrnError(f"backbone {name!r}: makes nothing of {size} x {size} images ({reason})") from error
        network.train(training)
        if not isinstance(maps, Tensor) or maps.ndim != 4:
            found = f"a tensor of {tuple(maps.shape)}" if isinstance(maps, Tensor) else f"a {type(maps).__name__}"
            raise FrnError(f"backbone {name!r}: gives {found}, not maps (b, d, h, w)")
        _, self.d, h, w = maps.shape
        self.own_grid = (h, w)
        self.stride = max(1, size // max(h, w))
        """Pixels per location, about."""
        self.map_scale = float(self.d) ** 0.5
        """As ResNet-12."""

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        maps: Tensor = self.network(images)
        return maps

    def grid(self, size: int) -> tuple[int, int]:
        """Height and width of the map of a square image of the size that it was looked at with."""
        assert size == self.size
        return self.own_grid


def registered() -> dict[str, EntryPoint]:
    """Entry points of other packages' backbones by name; nothing is imported yet."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def build_registered(entry: EntryPoint, size: int) -> Registered:
    """A backbone of another package with random weights. FrnError if it cannot be imported or makes no map."""
    try:
        network = entry.load()()
    except Exception as error:  # whatever another package raises
        raise FrnError(
            f"backbone {entry.name!r} ({entry.value}) cannot be made: {type(error).__name__}: {error}"
        ) from error
    return Registered(network, entry.name, size)
