"""Backbones of other packages, by entry points: saving, training, evaluation and export then know them.

In the `pyproject.toml` of such a package:

    [project.entry-points."frn.backbones"]
    my-net = "my_package:make_net"

`make_net()` returns any `nn.Module` that takes normalised images (b, 3, H, W) and gives maps (b, d, h, w).
"""

from importlib.metadata import EntryPoint, entry_points

from torch import Tensor, nn

from frn.backbones.backbone import ForeignBackbone
from frn.errors import FrnError

GROUP = "frn.backbones"


class Registered(ForeignBackbone):
    """A network of another package, trained like one of ours."""

    def __init__(self, network: nn.Module, name: str, size: int) -> None:
        """Look at the map that it makes of images of `size` pixels. FrnError if it is not one."""
        super().__init__()
        self.network = self.probe(lambda: network, f"backbone {name!r}", size)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        maps: Tensor = self.network(images)
        return maps


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
