"""Read tensors from weight files: ours, torch's, and the authors' checkpoints, renamed to our names.

A torch checkpoint is read as weights only; any other pickle is rejected.
"""

import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor

from frn.errors import FrnError, shorten
from frn.models.checkpoint_check import check_checkpoint
from frn.models.header import MAX_WEIGHTS
from frn.system.files import require_regular


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
