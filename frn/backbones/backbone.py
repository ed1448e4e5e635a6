"""Interface of a backbone, images (b, 3, H, W) to feature maps (b, d, h, w); combined and external networks.

Other packages register backbones through entry points. In the `pyproject.toml` of such a package:

    [project.entry-points."frn.backbones"]
    my-net = "my_package:make_net"

`make_net()` returns any `nn.Module` that maps normalised images (b, 3, H, W) to feature maps (b, d, h, w).
"""

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

import torch
from torch import Tensor, nn

from frn.errors import FrnError, shorten

GROUP = "frn.backbones"
Network = TypeVar("Network", bound=nn.Module)


class Backbone(nn.Module):
    """A network whose output is a feature map."""

    d: int  # number of channels
    stride: int  # image pixels per location of the feature map
    map_scale: float = 1.0  # divisor that reconstruction heads apply to feature maps (supplement, Hyperparameters)

    def grid(self, size: int) -> tuple[int, int]:
        """Return the height and width of the feature map of a square image of `size` pixels."""
        side = size // self.stride
        return side, side


def with_unit_energy(maps: Tensor) -> Tensor:
    """Scale each map (b, d, h, w) to a mean square of one.

    A sum rather than a mean, and no clamp: onnx2torch lacks ONNX's `ReduceMean` of opset 18 and one-sided `Clip`.
    """
    energy = maps.square().sum((1, 2, 3), keepdim=True) / maps[0].numel()
    return maps / (energy + 1e-12).sqrt()


class Several(Backbone):
    """Several networks of one architecture with separate weights, applied to the same images."""

    def __init__(self, networks: Sequence[Backbone]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.d = sum(network.d for network in networks)
        first = networks[0]
        self.stride, self.map_scale = first.stride, first.map_scale

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        return torch.cat([network(images) for network in self.networks], 1)

    def grid(self, size: int) -> tuple[int, int]:
        """Return the height and width of the feature map of a square image of `size` pixels."""
        first = self.networks[0]
        assert isinstance(first, Backbone)
        return first.grid(size)


class ForeignBackbone(Backbone):
    """A network from another package, whose map shape is determined with an image of `size` pixels."""

    def probe(self, make: Callable[[], Network], name: str, size: int) -> Network:
        """Build the network and inspect its map for a black image.

        Raises FrnError, starting with `name`, if it has none.
        """
        try:
            network = make()
            training = network.training
            with torch.no_grad():
                maps = network.eval()(torch.zeros(1, 3, size, size))
        except FrnError:
            raise
        except (RuntimeError, ValueError, TypeError, AssertionError, IndexError) as error:
            raise FrnError(
                f"{name}: returns no feature map for {size} x {size} images ({shorten(error)}). Give another --size "
                "or --layer."
            ) from error
        network.train(training)
        if not isinstance(maps, Tensor) or maps.ndim != 4:
            returned = f"a tensor of {tuple(maps.shape)}" if isinstance(maps, Tensor) else f"a {type(maps).__name__}"
            raise FrnError(f"{name}: returns {returned}, not maps (b, d, h, w)")
        _, self.d, h, w = maps.shape
        self.size, self.own_grid = size, (h, w)
        self.stride = max(1, size // max(h, w))  # approximate pixels per location
        self.map_scale = float(self.d) ** 0.5
        """Chosen as for ResNet-12, so that the mean energy of a location is one and lambda has its usual size."""
        return network

    def grid(self, size: int) -> tuple[int, int]:
        """Return height and width of the map of the inspected image."""
        assert size == self.size
        return self.own_grid


class Registered(ForeignBackbone):
    """A network from another package, trained like the built-in ones."""

    def __init__(self, network: nn.Module, name: str, size: int) -> None:
        """Inspect the feature map of images of `size` pixels. Raises FrnError if the output is not one."""
        super().__init__()
        self.network = self.probe(lambda: network, f"backbone {name!r}", size)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, H, W) to feature maps (b, d, h, w)."""
        return self.network(images)


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
