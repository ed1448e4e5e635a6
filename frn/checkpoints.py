"""Model files: one `.safetensors` with the weights and, in its header, what the model is.

The authors' own `.pth` checkpoints are read too (weights only); nothing else pickled is.
"""

import hashlib
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from frn.backbones.pretrained import Pretrained, recipe
from frn.errors import FrnError
from frn.files import write_atomically
from frn.images import EvaluationTransform
from frn.model import Model
from frn.model_file import ModelConfig, header, read_header
from frn.shipped import find_model

OPTIMIZER = "optimizer/"
STAGE = "stage/"
"""Prefix of an optimiser's tensors in a run's checkpoint; who wants the model passes over them."""


def save_model(model: Model, path: Path, record: Mapping[str, object] | None = None, *, half: bool = False) -> None:
    """Write a model file, atomically.

    Args:
        model: its weights and configuration are written.
        path: the file, `.safetensors` by habit.
        record: where the model comes from (preset, data, accuracy, ...), added to its own; anything JSON can hold.
        half: store convolutions in half precision, the few other numbers as they are; they load as float32.

    Raises:
        FrnError: if the file cannot be written.
    """
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    if half:
        weights = {name: tensor.half() if tensor.ndim == 4 else tensor for name, tensor in weights.items()}
    write_atomically(path, save(weights, metadata=header(model.config, {**model.record, **(record or {})})))


def load(model: str | Path) -> Model:
    """Load a model in evaluation mode; see `frn.model.load_model`."""
    path = find_model(model)
    if path.suffix in (".pth", ".pt"):
        return import_reference(path)
    config, record = read_header(path)
    with safetensors.safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if not name.startswith((OPTIMIZER, STAGE))]  # noqa: SIM118
        weights = {name: file.get_tensor(name) for name in names}
    loaded = Model(config)
    _fill(loaded, weights, path)
    loaded.record = record
    return loaded.eval()


def import_reference(path: Path, config: ModelConfig | None = None) -> Model:
    """Read a checkpoint of the authors' code (FRN or ProtoNet, Conv-4 or ResNet-12), in evaluation mode.

    Pre-training checkpoints load too; their dummy maps are set aside, as the authors do for fine-tuning.

    Args:
        path: a `state_dict` saved by torch.
        config: overrides what the keys tell, for an unusual image size, say.

    Raises:
        FrnError: if the file holds anything but tensors, or keys that are not theirs.
    """
    weights = convert_reference(_tensors(_unpickle(path), path))
    if config is None:
        backbone = "resnet12" if any(".conv3." in name for name in weights) else "conv4"
        config = ModelConfig(backbone=backbone, method="frn" if "head.alpha" in weights else "proto")
    model = Model(config)
    _fill(model, weights, path)
    model.record = {"imported_from": path.name}
    return model.eval()


def import_pretrained(
    name: str, weights: Path, *, size: int | None = None, method: str = "frn", source: str | None = None
) -> Model:
    """A frozen network of others under a head that has learned nothing, in evaluation mode.

    Args:
        name: `torchvision:NAME` or `timm:NAME`.
        weights: their file: `.safetensors`, or a torch checkpoint of tensors alone.
        size: side of the images; None takes that of the weights' own recipe.
        method: the head.
        source: what the record calls the weights; by default the file's name.

    Raises:
        FrnError: if there is no such network, or the file is not of it.
    """
    how = recipe(name, weights)
    size = size or how.size
    transform = EvaluationTransform(size=size, resize=how.resize(size))
    model = Model(ModelConfig(backbone=name, method=method, transform=transform, mean=how.mean, std=how.std))
    assert isinstance(model.backbone, Pretrained)
    model.backbone.fill(_read_weights(weights), weights)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    called = source or weights.name
    model.record = {
        "data": f"not trained here: weights of {name} from {called} (SHA-256 {digest[:12]})",
        "weights": {"backbone": name, "file": called, "sha256": digest},
    }
    return model.eval()


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a `.safetensors` file or of a torch checkpoint, where they may be under `state_dict` or `model`."""
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise FrnError(f"{path}: is not a readable .safetensors file ({error})") from error
    state = _unpickle(path)
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    return _tensors(state, path)


def _unpickle(path: Path) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols: what matters is refused below
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FrnError(f"{path}: holds more than weights and is refused (a pickle can run code)") from error
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile) as error:
        raise FrnError(f"{path}: is not a readable torch checkpoint ({error})") from error


def _tensors(state: object, path: Path) -> dict[str, Tensor]:
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise FrnError(f"{path}: is not a state_dict of tensors")
    return state


def convert_reference(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the authors' keys (facts: `scale`, `r`, `feature_extractor...`) to ours."""
    weights: dict[str, Tensor] = {}
    for key, value in state.items():
        if key == "scale":
            weights["head.gamma"] = value.reshape(())
        elif key == "r":
            weights["head.alpha"], weights["head.beta"] = value[0].clone(), value[1].clone()
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


def _fill(model: Model, weights: Mapping[str, Tensor], path: Path) -> None:
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        detail = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        what = f"a {model.config.method} model on {model.config.backbone}"
        raise FrnError(f"{path}: its weights do not fit {what} ({detail})") from error
