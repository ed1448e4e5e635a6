"""Backbones from other packages, which register them through entry points.

In the `pyproject.toml` of such a package:

    [project.entry-points."frn.backbones"]
    my-net = "my_package:make_net"

`make_net()` returns any `nn.Module` that maps normalised images (b, 3, H, W) to feature maps (b, d, h, w).
"""

from importlib.metadata import EntryPoint, entry_points

from torch import Tensor, nn

from frn.backbones.backbone import ForeignBackbone
from frn.errors import FrnError

GROUP = "frn.backbones"


class Registered(ForeignBackbone):
    """A network from another package, trained like the built-in ones."""

    def __init__(self, network: nn.Module, name: str, size: int) -> None:
        """Inspect the feature map of images of `size` pixels. Raises FrnError if the output is not one."""
        super().__init__()
        self.network = self.probe(lambda: network, f"backbone {name!r}", size)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        maps: Tensor = self.network(images)
        return maps


def registered() -> dict[str, EntryPoint]:
    """Return the entry points of other packages' backbones by name, without importing them."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def build_registered(entry: EntryPoint, size: int) -> Registered:
    """Return another package's backbone with random weights.

    Raises FrnError if the backbone cannot be imported or has no feature map.
    """
    try:
        network = entry.load()()
    except Exception as error:  # another package may raise anything
        raise FrnError(
            f"backbone {entry.name!r} ({entry.value}) cannot be created: {type(error).__name__}: {error}"
        ) from error
    return Registered(network, entry.name, size)
