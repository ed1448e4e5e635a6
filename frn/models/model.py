"""Models: a backbone that computes feature maps and a head that compares them; loading, saving and importing.

A model file is a single `.safetensors` with the weights; its header describes the model (`frn.models.header`). A torch
checkpoint is read as weights only; any other pickle is rejected.
"""

import copy
import json
import pickle
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from frn.backbones import build_backbone
from frn.backbones.backbone import Several
from frn.backbones.folding import folded
from frn.backbones.pretrained import Pretrained, recipe
from frn.errors import FrnError, FrnWarning, shorten
from frn.heads import SMALL, build_head, build_untrained_head, networks_for
from frn.heads.head import Head
from frn.images.transforms import EvaluationTransform
from frn.models.checkpoint_check import check_checkpoint
from frn.models.header import (
    CHECKSUM,
    MAX_WEIGHTS,
    OPTIMIZER,
    STAGE,
    ModelConfig,
    checksum,
    header,
    read_header,
    require_whole,
)
from frn.models.zoo import is_bare, resolve
from frn.system.files import require_regular, sha256, write_atomically

Array = NDArray[np.float32]


class Model(nn.Module):
    """A backbone and a head.

    `config` says how to build it; `record` is plain data about its origin (data, preset, accuracy, ...).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.record: dict[str, object] = {}
        count = networks_for(config.method)
        networks = [
            build_backbone(config.backbone, last_pool=config.last_pool, size=config.transform.size)
            for _ in range(count)
        ]
        self.backbone = Several(networks) if len(networks) > 1 else networks[0]
        self.d = self.backbone.d
        self.head: Head = build_head(config.method, self.d)
        self.adapter: nn.Linear | None = None
        """Linear map of the channels after the backbone; None unless the model is fine-tuned."""
        self.register_buffer("mean", torch.tensor(config.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config.std).view(3, 1, 1), persistent=False)

    def feature_maps(self, images: Tensor) -> Tensor:
        """Return feature maps (b, r, d) of RGB images (b, 3, H, W) in [0, 1].

        The maps are at least float32, even under autocast, because the closed form follows. Raises FrnError if the
        images are not floating-point, or too small for a single location.
        """
        if not images.is_floating_point():
            raise FrnError(f"images have dtype {images.dtype}, but must be floats in [0, 1]: pass images.float() / 255")
        stride = self.backbone.stride
        if min(images.shape[-2:]) < stride:
            raise FrnError(f"images of {tuple(images.shape[-2:])} pixels are too small; the minimum is {stride}")
        normalised = ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        maps: Tensor = self.backbone(normalised)
        maps = maps.to(torch.promote_types(maps.dtype, torch.float32)).flatten(2).mT  # b, r, d
        scale = self.map_scale(self.head)
        maps = maps if scale == 1.0 else maps / scale
        if self.adapter is None:
            return maps
        with torch.autocast(maps.device.type, enabled=False):
            adapted: Tensor = self.adapter(maps)
        return adapted

    def adapt(self, channels: Array) -> None:
        """Apply a map of the channels, (d, d), to all feature maps, after an earlier one if there is any."""
        weight, earlier = torch.from_numpy(channels.T), self.adapter
        self.adapter = nn.Linear(self.d, self.d, bias=False).requires_grad_(False)
        self.adapter.weight.copy_(weight if earlier is None else weight @ earlier.weight)

    def folded(self) -> "Model":
        """Return this model in evaluation mode with a backbone that extracts features faster; the rest is shared."""
        lean = copy.copy(self)
        lean._modules = self._modules | {"backbone": folded(self.backbone, self.config.transform.size)}
        return lean

    def map_scale(self, head: nn.Module) -> float:
        """Return the divisor of this backbone's maps for a head (supplement, Hyperparameters)."""
        return self.backbone.map_scale if head.scaled_maps else 1.0

    @property
    def grid(self) -> tuple[int, int]:
        """Return height and width of the feature map of an image of the model's own size."""
        return self.backbone.grid(self.config.transform.size)


def load_model(model: str | Path, *, transform: EvaluationTransform | None = None) -> Model:
    """Load a model in evaluation mode: a model file, an authors' `.pth` file, a run folder or a shipped name.

    `transform` is only for a `.pth`; see `import_reference`. Raises FrnError if the model does not exist, or the file
    is not a model.
    """
    path = resolve(model).weights
    if is_bare(path):
        return import_reference(path, transform=transform)
    if transform is not None:
        raise FrnError(f"{model}: already contains its preprocessing. --preset is for the authors' .pth files.")
    config, record = read_header(path)
    require_whole(path)
    with safetensors.safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if not name.startswith((OPTIMIZER, STAGE))]  # noqa: SIM118
        if config.untrained_head:  # the file may name any network, of any size
            _require_fit(config, {name: file.get_slice(name).get_shape() for name in names}, path)
        weights = {name: file.get_tensor(name) for name in names}
    return _filled(Model(config), weights, path, record)


def head_logits(model: str | Path) -> tuple[Callable[[Array, Array], Array], str]:
    """Return a trained head as a function from supports (way, k, r, d) and queries (n, r, d) to logits (n, way).

    The second value is the head's `unequal`.
    """
    head = load_model(model).head

    def logits(support: Array, query: Array) -> Array:
        with torch.inference_mode():
            scores: Array = head(torch.from_numpy(support), torch.from_numpy(query)).numpy()
        return scores

    return logits, head.unequal


def save_model(model: Model, path: Path, record: Mapping[str, object] | None = None) -> None:
    """Write a model file, atomically. Raises FrnError if the file cannot be written."""
    write_atomically(path, serialise(model, record))


def serialise(model: Model, record: Mapping[str, object] | None = None, *, half: bool = False) -> bytes:
    """Return the bytes of a model file; `record`, plain data about its origin, is added to the model's own.

    With `half`, convolutions are stored in half precision and the few other numbers unchanged; all load as float32.
    """
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if half:
        weights = {name: tensor.half() if tensor.ndim == 4 else tensor for name, tensor in weights.items()}
    return model_file(weights, header(model.config, {**model.record, **(record or {})}))


def model_file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return a reproducible `.safetensors` file; safetensors itself orders header entries at random."""
    data = save(dict(tensors), metadata=dict(metadata))
    length = int.from_bytes(data[:8], "little")
    fields = json.loads(data[8 : 8 + length])
    fields["__metadata__"][CHECKSUM] = checksum(fields, data[8 + length :])
    fields["__metadata__"] = dict(sorted(fields["__metadata__"].items()))
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


UNTOLD = (
    "{}: weights alone do not record how images were preprocessed. Images that are not 84 x 84 are resized to a "
    "shorter side of 92 pixels and cropped to the central 84 x 84. `frn models add FILE --preset NAME` changes this "
    "(both cub-cropped-resnet12 and aircraft-resnet12 resize both sides to 92)."
)


def import_reference(path: Path, *, transform: EvaluationTransform | None = None) -> Model:
    """Read a checkpoint from the authors' code (FRN or ProtoNet), in evaluation mode.

    Its keys reveal the model, but not how images were prepared; `transform` gives that. An image that already has the
    transform's size is not resized, like those that the authors prepare in advance. Without `transform`, photos are
    resized and cropped as for the authors' uncropped data sets, and an `FrnWarning` says so. Raises FrnError if the
    file contains anything but tensors, or unknown keys.
    """
    weights = read_reference(path)
    backbone = "resnet12" if any(".conv3." in name for name in weights) else "conv4"
    method = "frn" if "head.alpha" in weights else "proto"
    left_alone = replace(transform or EvaluationTransform(size=84), resize=None)
    config = ModelConfig(backbone=backbone, method=method, transform=left_alone)
    model = _filled(Model(config), weights, path, {"imported_from": path.name})
    if transform is None:
        warnings.warn(UNTOLD.format(path.name), FrnWarning, stacklevel=3)
    return model


def import_pretrained(name: str, weights: Path, *, size: int | None = None, method: str = "frn") -> Model:
    """Import a frozen pretrained backbone with an untrained head, in evaluation mode.

    The name is `torchvision:NAME` or `timm:NAME`; `size=None` uses the image size of the weights' own recipe. Raises
    FrnError if the backbone does not exist or the file does not belong to it.
    """
    if (networks := networks_for(method)) > 1:
        raise FrnError(f"method {method!r} trains {networks} networks, but {name} is a single frozen network")
    if method == "simpleshot":
        raise FrnError("method 'simpleshot' subtracts the mean of training images, and there are none. Use cosine.")
    build_untrained_head(method, SMALL)
    how = recipe(name, weights)
    size = size or how.size
    transform = EvaluationTransform(size=size, resize=how.resize(size))
    config = ModelConfig(backbone=name, method=method, transform=transform, mean=how.mean, std=how.std)
    tensors = read_weights(weights)
    with Weightless():  # so that another network's weights are refused before gigabytes are filled with random ones
        _fill_pretrained(Model(config), tensors, weights, assign=True)
    model = Model(config)
    _fill_pretrained(model, tensors, weights)
    digest = sha256(weights)
    model.record = {
        "data": f"not trained here: weights of {name} from {weights.name} (SHA-256 {digest[:12]})",
        "weights": {"backbone": name, "file": weights.name, "sha256": digest},
    }
    return model.eval()


def _fill_pretrained(model: Model, weights: Mapping[str, Tensor], path: Path, *, assign: bool = False) -> None:
    assert isinstance(model.backbone, Pretrained)
    model.backbone.fill(weights, path, assign=assign)


class Weightless(TorchFunctionMode):
    """Create tensors without memory, while a network can still compute sizes by `arange` and `linspace`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = {"device": "meta"} if func in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn) else {}
        return func(*args, **{**(kwargs or {}), **device})


def _require_fit(config: ModelConfig, shapes: Mapping[str, Sequence[int]], path: Path) -> None:
    """Raise FrnError unless a network, built without memory for its weights, has tensors of these shapes."""
    with Weightless():
        try:
            model = Model(config)
        except FrnError:  # unknown backbone: building the real model gives a better error
            return
        _fill(model, {name: torch.empty(tuple(shape)) for name, shape in shapes.items()}, path, assign=True)


def _filled(model: Model, weights: Mapping[str, Tensor], path: Path, record: dict[str, object]) -> Model:
    _fill(model, weights, path)
    model.record = record
    return model.eval()


def _fill(model: Model, weights: Mapping[str, Tensor], path: Path, *, assign: bool = False) -> None:
    if "adapter.weight" in weights:
        model.adapter = nn.Linear(model.d, model.d, bias=False)
    try:
        model.load_state_dict(dict(weights), assign=assign)
    except RuntimeError as error:
        detail = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        what = f"a {model.config.method} model on {model.config.backbone}"
        raise FrnError(f"{path}: its weights do not fit {what} ({detail})") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a `.safetensors` file or a torch checkpoint, where `state_dict` or `model` may hold them.

    Raises FrnError if the file cannot be read or contains anything but tensors.
    """
    if path.suffix == ".safetensors":
        require_regular(path, MAX_WEIGHTS)
        try:
            return load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise FrnError(f"{path}: is not a readable .safetensors file ({shorten(error)})") from error
    return read_checkpoint(path)


def read_reference(path: Path) -> dict[str, Tensor]:
    """Read a checkpoint from the authors' code, under our names (theirs: `scale`, `r`, ...).

    The dummy maps of pre-training are skipped, as the authors do for fine-tuning. Raises FrnError if the file cannot be
    read or contains anything but tensors.
    """
    weights: dict[str, Tensor] = {}
    for key, value in read_checkpoint(path).items():
        if key == "scale" and value.numel() == 1:
            weights["head.gamma"] = value.reshape(())
        elif key == "r" and value.numel() == 2:
            weights["head.alpha"], weights["head.beta"] = value.flatten().clone()
        elif key in ("r", "scale"):
            raise FrnError(f"{path}: is not a checkpoint from the authors ({key!r} has the shape {tuple(value.shape)})")
        elif key != "cat_mat":
            weights[_rename(key.removeprefix("module."))] = value
    return weights


def _rename(key: str) -> str:
    if match := re.fullmatch(r"feature_extractor\.layers\.(\d+)\.layers\.([01])\.(\w+)", key):
        layer, part, name = match.groups()
        return f"backbone.blocks.{int(layer) // 3}.{('conv', 'norm')[int(part)]}.{name}"
    if match := re.fullmatch(r"feature_extractor\.layer(\d)\.0\.(conv|bn)(\d)\.(\w+)", key):
        block, kind, convolution, name = match.groups()
        return f"backbone.blocks.{int(block) - 1}.conv{convolution}.{int(kind == 'bn')}.{name}"
    if match := re.fullmatch(r"feature_extractor\.layer(\d)\.0\.downsample\.([01])\.(\w+)", key):
        block, part, name = match.groups()
        return f"backbone.blocks.{int(block) - 1}.shortcut.{part}.{name}"
    return key


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a torch checkpoint.

    Raises FrnError if the file cannot be read, contains anything but tensors, or takes too much time or memory.
    """
    check_checkpoint(path)
    state = _unpickle(path)
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise FrnError(f"{path}: is not a state_dict of tensors")
    return {str(name): value for name, value in state.items()}


def _unpickle(path: Path) -> object:
    try:
        with warnings.catch_warnings():
            # a warning about pickle protocols; everything that matters is refused below
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FrnError(f"{path}: contains more than weights and is refused (a pickle can run code)") from error
    except Exception as error:  # torch may raise anything on a damaged file
        raise FrnError(f"{path}: is not a readable torch checkpoint ({shorten(error)})") from error
