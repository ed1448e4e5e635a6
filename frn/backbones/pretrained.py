"""Networks from other libraries as frozen extractors: `torchvision:NAME` (classification) and `timm:NAME`.

A convolutional network returns the map before its pooling. A vision transformer returns its patch tokens after the last
norm, without class and register tokens. `timm:NAME@2` is the stage (or transformer block) before the last, and so on.
Nothing is trained, and downloads happen only on request.

Shape letters: b images, S their side, d channels, (h, w) the map.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from frn.backbones.backbone import ForeignBackbone, with_unit_energy
from frn.errors import FrnError, shorten
from frn.system.extras import install_command
from frn.system.files import PART, remove_unfinished, sha256
from frn.system.transfers import Progress, fetch_from_hub, fetch_url


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Image preparation that the weights expect. Resizing is always bilinear here."""

    size: int  # side of the crop, in pixels
    ratio: float  # shorter side after resizing, as a multiple of `size`; at least 1
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def resize(self, size: int) -> int:
        """Return the length of the shorter side before a crop of `size`, in pixels."""
        return max(size, round(size * self.ratio))


class Pretrained(ForeignBackbone):
    """Feature maps of a frozen network, which stays in evaluation mode."""

    def __init__(self, name: str, size: int) -> None:
        """Build the network for images of `size` pixels, with random weights.

        Raises FrnError if the network does not exist, has no map, or does not accept images of that size.
        """
        super().__init__()
        source, network, stage = split_name(name)
        self.maps = self.probe(lambda: source(network, size, stage), name, size)
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "Pretrained":
        """Stay in evaluation mode."""
        return super().train(False)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, S, S) to feature maps (b, d, h, w), each with a mean square of one.

        A network trained for classification responds to some images more strongly than to others. A class with such
        examples would reconstruct every query.
        """
        maps: Tensor = self.maps(images)
        return with_unit_energy(maps)

    def fill(self, weights: Mapping[str, Tensor], where: Path, *, assign: bool = False) -> None:
        """Copy or assign the pretrained weights, except those of the classifier.

        Raises FrnError if a weight is missing, unexpected, or has a different shape.
        """
        try:
            self.maps.net.load_state_dict(self.maps.fitted(weights), assign=assign)
        except RuntimeError as error:
            reason = shorten(str(error).partition(":")[2])  # without torch's heading
            raise FrnError(f"{where}: does not match this network: {reason}") from error


FAMILIES = ("ResNet", "RegNet", "VGG", "ConvNeXt", "EfficientNet", "MobileNetV2", "MobileNetV3", "SwinTransformer")
"""Torchvision classes whose parts, applied in order up to the pooling, give the feature map."""


class TorchvisionMaps(nn.Module):
    """Feature maps of a torchvision classification network, for images of any size."""

    def __init__(self, name: str, size: int, layer: int = 1) -> None:
        from torchvision import models

        super().__init__()
        _torchvision_entries(name)  # rejects an unknown name
        if layer != 1:
            raise FrnError(f"torchvision:{name}: only its last map is supported. For other layers, use timm:NAME.")
        self.net = models.get_model(name, weights=None)
        if type(self.net).__name__ not in FAMILIES:
            raise FrnError(
                f"torchvision:{name}: its feature maps are not supported. Supported are: {', '.join(FAMILIES)}. For "
                "other networks, use timm:NAME."
            )
        self.head = next(head for head in ("fc", "head", "classifier") if hasattr(self.net, head))
        setattr(self.net, self.head, nn.Identity())

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, S, S) to (b, d, h, w)."""
        for part, module in self.net.named_children():
            if part == "avgpool":
                break
            images = module(images)
        return images

    def fitted(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {key: value for key, value in weights.items() if not key.startswith(f"{self.head}.")}

    @classmethod
    def recipe(cls, name: str, weights: Path | None) -> Recipe:
        """Return torchvision's recipe for the weights with that file name, or for its default weights."""
        preset = _torchvision_weights(name, weights).transforms()
        size, ratio = preset.crop_size[0], preset.resize_size[0] / preset.crop_size[0]
        return Recipe(size=size, ratio=ratio, mean=tuple(preset.mean), std=tuple(preset.std))

    @classmethod
    def places(cls, name: str) -> list[Path]:
        """Return where torchvision caches its downloads, its default weights first."""
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        return [folder / Path(entry.url).name for entry in _torchvision_entries(name)]

    @classmethod
    def download(cls, name: str, progress: Progress | None = None) -> Path:
        """Download the default weights to torch's cache; the file's name contains the start of its SHA-256."""
        place = cls.places(name)[0]
        digest_in_name = re.search(r"-([0-9a-f]{8,})\.", place.name)

        def check(path: Path) -> None:
            digest = sha256(path)
            if digest_in_name and not digest.startswith(digest_in_name[1]):
                raise FrnError(
                    f"the download has the SHA-256 {digest[:8]}..., not {digest_in_name[1]}..., and was deleted"
                )

        for unfinished in place.parent.glob(f".*.{PART}"):
            remove_unfinished(unfinished.with_name(unfinished.name[1:].removesuffix(f".{PART}")))
        fetch_url(_torchvision_weights(name, None).url, place, check, progress)
        return place


def _torchvision_entries(name: str) -> list[Any]:
    from torchvision import models

    if name not in models.list_models(models):
        raise FrnError(f"torchvision:{name}: torchvision has no such classification network")
    entries = models.get_model_weights(name)
    return sorted(entries, key=lambda entry: entry is not entries.DEFAULT)


def _torchvision_weights(name: str, file: Path | None) -> Any:
    entries = _torchvision_entries(name)
    return next((entry for entry in entries if file and Path(entry.url).name == file.name), entries[0])


class TimmMaps(nn.Module):
    """Feature maps of a timm network."""

    def __init__(self, name: str, size: int, layer: int = 1) -> None:
        super().__init__()
        self.name, self.layer = name, layer
        config = _timm_config(name)
        sized = {"img_size": size} if config["fixed_input_size"] else {}
        self.net = _timm().create_model(name, pretrained=False, num_classes=0, **sized)
        if not hasattr(self.net, "forward_intermediates"):
            raise FrnError(f"timm:{name}: has no feature maps (no forward_intermediates)")
        heads = config["classifier"] or ()
        self.heads = (heads,) if isinstance(heads, str) else tuple(heads)

    def forward(self, images: Tensor) -> Tensor:
        """Map normalised images (b, 3, S, S) to (b, d, h, w)."""
        maps: list[Tensor] = self.net.forward_intermediates(
            images, indices=self.layer, norm=True, output_fmt="NCHW", intermediates_only=True
        )
        return maps[0]

    def fitted(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights under timm's names without the classifier, with positions resampled to the image size."""
        renamed = self.renamed(self.name, weights, self.net)
        return {key: value for key, value in renamed.items() if not key.startswith(tuple(f"{h}." for h in self.heads))}

    @staticmethod
    def renamed(name: str, weights: Mapping[str, Tensor], net: nn.Module) -> Mapping[str, Tensor]:
        """Return the weights under timm's names, with transformer positions resampled to the image size of `net`."""
        rename = getattr(sys.modules[type(net).__module__], "checkpoint_filter_fn", None)
        tensors: Mapping[str, Tensor] = rename(dict(weights), net) if rename else weights
        if "_conv_stem.weight" in tensors:  # of `efficientnet_lite_pytorch`: the order of layers is the same
            expected = _timm().create_model(name).state_dict()
            if [value.shape for value in tensors.values()] == [value.shape for value in expected.values()]:
                return dict(zip(expected, tensors.values(), strict=True))
        return tensors

    @classmethod
    def recipe(cls, name: str, weights: Path | None) -> Recipe:
        config = _timm_config(name)
        size, ratio = config["input_size"][-1], 1 / config["crop_pct"]
        return Recipe(size=size, ratio=ratio, mean=tuple(config["mean"]), std=tuple(config["std"]))

    @classmethod
    def places(cls, name: str) -> list[Path]:
        """Return where huggingface_hub caches timm's downloads."""
        hub = cls.hub(name)  # first, because timm depends on huggingface_hub
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(hub, "model.safetensors")
        return [Path(cached)] if isinstance(cached, str) else []

    @classmethod
    def hub(cls, name: str) -> str:
        return str(_timm_config(name).get("hf_hub_id") or f"timm/{name}")

    @classmethod
    def download(cls, name: str, progress: Progress | None = None) -> Path:
        return fetch_from_hub(cls.hub(name), "model.safetensors")


def _timm() -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read by huggingface_hub, which timm imports
    try:
        import timm
    except ImportError as error:
        raise FrnError(f"timm: networks need timm, which is not installed: {install_command('timm')}") from error
    return timm


def _timm_config(name: str) -> dict[str, Any]:
    timm = _timm()
    if not timm.is_model(name):
        raise FrnError(f"timm:{name}: timm {timm.__version__} has no such network")
    config = timm.get_pretrained_cfg(name)
    return dict(config.to_dict()) if config else {"fixed_input_size": False, "classifier": ()}


ADAPTERS: dict[str, type[TorchvisionMaps] | type[TimmMaps]] = {"torchvision": TorchvisionMaps, "timm": TimmMaps}


def split_name(name: str) -> tuple[type[TorchvisionMaps] | type[TimmMaps], str, int]:
    """Return the class for SOURCE, NAME, and STAGE (1, the last, if it is not given) of `SOURCE:NAME@STAGE`.

    Raises FrnError if the name does not have this form.
    """
    source, _, rest = name.partition(":")
    network, _, stage = rest.partition("@")
    if source not in ADAPTERS or not network:
        raise FrnError(f"{name}: a pretrained backbone is named {' or '.join(f'{s}:NAME' for s in ADAPTERS)}")
    if stage and not (stage.isdecimal() and int(stage)):
        raise FrnError(f"{name}: the part after @ is not a positive number")
    return ADAPTERS[source], network, int(stage or 1)


def packaged_weights(package: str) -> Path | None:
    """Return the weights file of an installed package without importing it, or None if it is not installed."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or () for path in sorted(Path(folder).rglob("*.pth"))), None)


def find_weights(name: str, file: Path | None, *, download: bool = False, progress: Progress | None = None) -> Path:
    """Return the given weights file, or the one in the cache of torchvision or timm. Raises FrnError without either."""
    source, network, _ = split_name(name)
    if file is not None:
        if not file.is_file():
            raise FrnError(f"{file}: no such file")
        return file
    places = source.places(network)
    if existing := next((place for place in places if place.is_file()), None):
        return existing
    if download:
        try:
            return source.download(network, progress)
        except FrnError as error:
            raise FrnError(
                f"{name}: its weights could not be downloaded ({error}). Try again online, or pass them with "
                "--weights FILE."
            ) from error
    looked = ", ".join(map(str, places)) or "model.safetensors in the hub's cache"
    raise FrnError(
        f"{name}: no weights found (looked for {looked}). Pass them with --weights FILE, or let "
        "`frn models add` fetch them."
    )


def recipe(name: str, weights: Path) -> Recipe:
    """Return the image preparation for a network with the weights of that file."""
    source, network, _ = split_name(name)
    return source.recipe(network, weights)
